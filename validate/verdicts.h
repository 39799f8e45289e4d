// Fits or not, against what happened: how often a run that worked was called too large, and the reverse.
#pragma once

#include <string>
#include <vector>

#include "validate/judge.h"

namespace gpuplan {

/// No credit or blame this near to the capacity: the share of it.
inline constexpr double kTooClose = 0.05;

/// What a fully used allocator would need, against what the GPU offers; empty without a prediction or a capacity.
std::optional<bool> predicted_fit(const PointResult& result);

struct VerdictCounts {
  std::size_t ok_fits{}, ok_oom{}, oom_oom{}, oom_fits{}, left_out{};
  std::vector<std::string> false_alarms, dangerous;  // ids of ok_oom and oom_fits
};

/// Over the scored points. Left out are those without a stated capacity, runs measured above 95 % of it, and
/// predictions within 5 % of it.
VerdictCounts count_verdicts(const std::vector<PointResult>& results);

}  // namespace gpuplan
