// A measured run beside the predicted one, and which difference between plan and run explains the gap: every cause of
// diagnose/causes.h is applied to the plan and estimated; those whose prediction comes near the measurement, by the
// stated error of predictions, are likely.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnose/causes.h"
#include "diagnose/step_parts.h"
#include "planner/accuracy.h"

namespace gpuplan {

/// Names what a measured peak counts: the tensors, the allocator's reserve, the process.
enum class PeakKind : std::uint8_t { Allocated, Reserved, Process };
inline constexpr std::array kPeakKinds{NameRow<PeakKind>{"allocated", PeakKind::Allocated},
                                       NameRow<PeakKind>{"reserved", PeakKind::Reserved},
                                       NameRow<PeakKind>{"process", PeakKind::Process}};
constexpr NameTable<PeakKind> names_of(PeakKind) { return {"kind of peak", kPeakKinds}; }

/// Holds what is known of a run. Time is one of the three; parts have it too.
struct MeasuredRun {
  std::optional<Seconds> step;
  std::optional<double> tokens_per_second;  // of the whole job
  std::optional<StepParts> parts;           // of a profiler's trace
  std::optional<Bytes> peak;                // of one GPU
  PeakKind peak_kind = PeakKind::Process;
  std::int64_t full_length = 0;  // of a sequence, where the plan's is that of the longest row; 0: the plan's
  bool has_time() const { return step || tokens_per_second || parts; }
};

/// A measured figure over the predicted one.
struct Gap {
  double measured{}, predicted{};  // s or tokens/s; bytes
  AccuracyRange range;             // of measured / predicted, of times also where tokens/s are compared
  double ratio{};                  // measured / predicted; of tokens/s predicted / measured: times
  bool is_inside() const { return ratio >= range.low && ratio <= range.high; }
};

struct Explanation {
  const Cause* cause{};
  Difference difference;  // the value that comes nearest
  double probability{};   // among all causes, no cause, and causes that gpuplan does not know
  double time{};          // predicted with it, as Gap::measured counts
  Bytes peak;
};

struct Diagnosis {
  EstimateRequest request;
  StrategyEstimate predicted;
  MeasuredRun measured;
  std::optional<Gap> time, memory;
  std::optional<StepParts> predicted_parts;  // where a trace was given
  /// The likely ones, the likeliest first; empty where the gaps are inside the ranges.
  std::vector<Explanation> explanations;
  double unexplained = 1;  // probability that none of them is it

  bool is_inside() const { return (!time || time->is_inside()) && (!memory || memory->is_inside()); }
};

/// `strategy`: what ran, one that is possible. Throws InputError where nothing was measured.
Diagnosis diagnose(const Variant& asked, const std::string& strategy, const MeasuredRun& measured);

}  // namespace gpuplan
