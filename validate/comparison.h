// A measured figure beside the predicted one; of speed as sources print it: a step's time, tokens, samples or FLOPs
// per second, from the predicted time of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/strategy_estimate.h"
#include "validate/aliases.h"
#include "validate/point.h"

namespace gpuplan {

/// The tier of memory that a metric reads.
enum class MemoryTier : std::uint8_t { Tensors, Reserved, Process };

/// One figure of a point, in the point's own unit (GiB for memory).
struct Comparison {
  std::string metric;
  double measured{}, predicted{};
  std::optional<MemoryTier> tier;  // of a memory figure
  double error() const { return predicted / measured - 1; }
};

/// The point's target beside its prediction; empty for a metric that a step's time does not determine.
std::optional<Comparison> compare_speed(const Point& point, const StrategyEstimate& estimate, const Job& job,
                                        const AliasTable& aliases);

/// More is faster: a speed, not a time.
bool is_rate(const Comparison& comparison);

/// ln(predicted / measured) in terms of time: above 0 when the prediction is too slow, whatever the metric.
double log_time_error(const Comparison& comparison);

}  // namespace gpuplan
