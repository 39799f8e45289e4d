// Which strategy of an answer to take, what is better than it, and what would help when nothing fits.
#pragma once

#include <span>

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// The best of those that fit, or where there are none, fit tightly; null where nothing does. What lies within `error`
/// of the best is decided by the next wish, then by simplicity.
const StrategyEstimate* best_of(std::span<const StrategyEstimate> rows, Preference preference, double error);

/// The best of result.strategies under the request's preference. Inside the model's error the simplest wins. When
/// nothing fits, `strategy` is empty and `advice` lists the changes that would make something fit, smallest change
/// first, each tried.
Recommendation recommend(const EstimateRequest& request, const EstimateResult& result);

}  // namespace gpuplan
