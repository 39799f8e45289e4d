// Which strategy to use and why, in the words of the field; what to change when nothing fits; what was assumed.
#pragma once

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// The best of result.strategies under the request's preference. Inside the model's error the simplest wins. When
/// nothing fits, `strategy` is empty and `advice` lists the changes that would make something fit, smallest change
/// first, each tried.
Recommendation recommend(const EstimateRequest& request, const EstimateResult& result);

/// Every default and convention that shaped the figures, one sentence each.
std::vector<std::string> list_assumptions(const EstimateRequest& request, const EstimateResult& result);

}  // namespace gpuplan
