// One job estimated: memory of the fullest rank, time of a step, cost. The rows of an answer, and what the searches
// call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/accuracy.h"
#include "planner/block_cache.h"
#include "planner/coverage.h"
#include "planner/job.h"
#include "planner/memory.h"
#include "planner/peaks.h"
#include "planner/phases.h"
#include "planner/step_temporaries.h"
#include "planner/step_time.h"
#include "planner/tiers.h"

namespace gpuplan {

enum class CommunicationLevel : std::uint8_t { None, Low, Modest, High };
std::string_view to_string(CommunicationLevel level);

/// Host memory of one node. `load` is while the checkpoint is read, `step` in training (offload), `save` when the model
/// is written.
struct HostBytes {
  Bytes load, load_efficient;  // every rank reads a full copy; cpu_ram_efficient_loading: one does
  Bytes step, nvme;
  Bytes save;
  Bytes capacity;  // 0: not known
  Bytes usual;     // of a machine of this kind, where `capacity` is not known
  Bytes needed() const { return load_efficient > step ? load_efficient : step; }
  bool fits = true;  // of what is known; load_efficient and step are compared
  /// Nobody said what the host has, and it needs more than such machines usually have.
  bool needs_more_than_usual() const { return capacity.count == 0 && usual.count > 0 && needed() > usual; }
};

/// Holds what saving costs.
struct SaveCost {
  Bytes disk, disk_with_optimizer, device_peak;
};

/// The parts of a verdict that do not depend on the kind of GPU.
struct CommonMemory {
  CommonMemory() = default;
  CommonMemory(const Job& job, const StepProgram& program);
  PhaseNeeds needs;
  std::optional<StepTemporaries> temporaries;
  SaveCost save;
};

/// One row of the table. Figures are of the fullest rank.
struct StrategyEstimate {
  Strategy strategy;
  std::string not_applicable;  // reason; the figures below are then empty
  double chance{};             // that its memory is found, on every GPU and on the host; `fit` in words
  Fit fit{};
  std::string why_not_yes;  // "needs 3.1 GiB more than …", what a tight fit depends on; empty when it fits
  Peak peak;
  MemoryTiers tiers;
  std::string peak_instant;                                 // "logits and loss"
  std::array<Bytes, std::size_t(kNumCategories)> memory{};  // adds up to tiers.process
  std::vector<DetailedPeak::Item> items;                    // tensors live at the peak, largest first
  std::size_t fullest_class{};
  HostBytes host;
  SaveCost save;
  std::vector<PhasePeak>
      run_phases;       // of the fullest class, training apart; evaluation where it was asked for, or in parts
  Bytes kept_logits;    // of one evaluation batch, where they are kept
  Bytes communication;  // sent per rank and step
  CommunicationLevel communication_level{};
  StepTime time;
  std::vector<PhaseFigures> phases;  // of a method that has several, or compares answers
  double tokens_per_second{};        // of the whole job, without padding
  double mfu{};
  std::int64_t global_batch{};  // sequences per optimizer step
  std::int64_t steps_per_epoch{};
  std::optional<Seconds> epoch, total;
  std::optional<double> cost_usd;               // of all epochs, on the GPUs this strategy uses
  std::optional<std::int64_t> max_micro_batch;  // largest that fits, other things equal
  std::optional<std::int64_t> max_seq_len;      // longest, at the recipe's micro batch
  std::int64_t num_gpus_used{};
  Coverage coverage;                                      // of its products by the profile's measurements
  std::optional<AccuracyRange> memory_range, time_range;  // around process bytes and step time; none for ranks on a CPU

  /// Bytes of the process whose tensors take `tensors`.
  Bytes process_with(Bytes tensors) const { return tensors + (tiers.process - tiers.reserved); }
  /// The memory of the process while it trains, also where evaluation needs more.
  Bytes training_process() const { return peak.tensors > peak.step ? process_with(peak.step) : tiers.process; }
  /// nullptr: not among `run_phases`.
  const PhasePeak* phase(PeakInstant instant) const;
  bool fits() const { return fit >= Fit::IfHost; }
  Fit fit_on_gpus() const { return fit == Fit::IfHost ? fit_of(chance) : fit; }  // whatever the host has
  bool fits_well() const { return fit == Fit::Yes; }                             // what advice may say "fits" of
  /// Says whether it fits if the prediction is exact.
  bool is_predicted_to_fit() const { return tiers.needed <= tiers.usable && host.fits; }
};

/// A plan beside the one that was asked for, evaluated in the same way.
struct BetterWay {
  std::vector<std::string> flags;  // to add: "--checkpointing full", "--strategy ddp"
  StrategyEstimate plan;           // without its limits and the parts of its peak
};

struct Recommendation {
  std::string strategy, reason;
  std::vector<BetterWay> better;    // at most two, the best by the preference first; only when something fits
  std::vector<std::string> advice;  // what to change when nothing fits, or what else is worth knowing
};

/// Holds what was chosen where nobody gave it (planner/free_choice).
struct ChosenFreely {
  std::vector<std::string> flags;         // in the place of defaults: "--checkpointing full"
  std::optional<StrategyEstimate> usual;  // the best with the defaults; nothing where none fits
};

struct EstimateResult {
  EstimateRequest request;  // as it was answered
  ChosenFreely chosen;
  TrainedModel model;
  FrameworkConvention framework;
  Profile profile;
  std::vector<StrategyEstimate> strategies;   // in the order of strategy_names()
  std::optional<Recommendation> recommended;  // empty strategy name: nothing fits, advice says what to change
  std::vector<std::string> assumptions;
};

/// Gives what kind of run the job is, as published measurements are grouped.
MeasuredKind measured_kind(const Job& job);

/// The range of measurements around the predicted time of a plan like this; none for ranks on a CPU.
std::optional<AccuracyRange> time_range(const Job& job);

/// The same around the bytes of a process.
std::optional<AccuracyRange> memory_range(const Job& job);

/// Memory of one class of ranks of a built program; of a class on different GPUs, that of the tightest one.
struct ClassMemory {
  Peak peak;
  MemoryTiers tiers;
  std::vector<PhasePeak> phases;
};
ClassMemory class_memory(const Job& job, const StepProgram& program, const RankClass& rank_class);

/// Builds the job's program and fills peak, tiers and verdict only, that of the host too, without words (why_not_yes,
/// peak_instant); true when it fits, if tightly. What the searches call. `cache`, here and below: of plans of one
/// model.
bool evaluate(StrategyEstimate& e, const Job& job, StepProgram& program, BlockCache* cache = nullptr);

/// The same for a program that is built and replayed already: `peaks` is replay() of its classes. Jobs that differ in
/// the kind of GPU alone share all three, unless they are pipelines, whose stages are cut by the memory of their GPUs.
/// `range`: memory_range() of the job, which all its batches share.
bool evaluate_built(StrategyEstimate& e, const Job& job, const StepProgram& program, std::span<const Peak> peaks,
                    const CommonMemory& common, const std::optional<AccuracyRange>& range);

/// Says how much of an estimate is made. All: the peak is taken apart too (memory, items, kept_logits, evaluation among
/// phases), which is half of the work. IfFits: no time of what does not fit.
enum class Parts : std::uint8_t { IfFits, None, All };

/// Program, replay, time: everything but the limits. `program` is reused storage; afterwards it is that of an average
/// step (average_job).
StrategyEstimate estimate_strategy(const Job& job, StepProgram& program, Parts parts = Parts::All,
                                   BlockCache* cache = nullptr);

/// Fills e.max_micro_batch and e.max_seq_len, the largest that are predicted to fit (without the range around the
/// prediction), by tries of whole plans; empty where not even 1 does.
void find_limits(StrategyEstimate& e, const Job& job, StepProgram& program, BlockCache* cache = nullptr);

}  // namespace gpuplan
