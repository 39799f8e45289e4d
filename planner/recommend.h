// Which strategy of an answer to take, what is better than it, and what would help when nothing fits.
#pragma once

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// The best of result.strategies under the request's preference. Inside the model's error the simplest wins. When
/// nothing fits, `strategy` is empty and `advice` lists the changes that would make something fit, smallest change
/// first, each tried.
Recommendation recommend(const EstimateRequest& request, const EstimateResult& result);

}  // namespace gpuplan
