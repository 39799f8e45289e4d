// How often a thing is timed, and what its figure is: warm-up, then runs until the 95 % interval of the median is
// narrow enough or a cap is reached. Outliers are reported but kept; the median is robust to them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/units.h"

namespace gpuplan {

struct SamplingRule {
  double relative_interval = 0.02;  // half width of the interval over the median
  std::int64_t num_warmups = 2;
  std::int64_t least_runs = 7, most_runs = 200;
  Seconds most_time{0.6};       // of all runs together; three times that for the first six, and one run always
  Seconds least_batch{500e-6};  // shorter calls are timed several at a time
  Seconds alone{20e-3};         // and shorter than this two at least: with what leads them in (probes/workload.cpp)

  static constexpr std::int64_t kLeastForInterval = 6;  // fewer runs have no 95 % interval: never converged
  static constexpr std::int64_t kMostCalls = 1 << 16;   // in a batch, of a clock that does not move
};
/// The defaults, or the coarser rule of `--quick`.
SamplingRule sampling_rule(bool is_quick);
/// Coarser rule for samples of one fit: many points compensate for wider intervals.
SamplingRule one_of_many(SamplingRule rule);

/// Order statistics of runs.
struct RunStatistics {
  double median{}, low{}, high{};
  std::int64_t num_outliers{};  // further than 3 scaled median absolute deviations above or below
};
/// Median with its distribution-free 95 % interval (binomial ranks). Requires: not empty.
RunStatistics summarise(std::span<const double> runs);

struct SampledTime {
  RunStatistics statistics;
  std::int64_t num_runs{};
  bool is_converged{};
};

/// `time_calls(n)` runs the thing n times and returns the time of all; statistics are per call. What is decided depends
/// on the returned times alone: ranks that are given the same times stop together.
SampledTime sample_time(const SamplingRule& rule, const std::function<Seconds(std::int64_t num_calls)>& time_calls);

}  // namespace gpuplan
