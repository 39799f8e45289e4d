// The answer of `gpuplan estimate`: every strategy on one cluster, what fits, how fast, at what cost, and one
// recommended.
#pragma once

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// Evaluates every strategy (or the one asked for). Throws InputError for a recipe that makes no sense.
EstimateResult estimate(const EstimateRequest& request);

/// Every default and convention that shaped the figures, one sentence each.
std::vector<std::string> list_assumptions(const EstimateRequest& request, const EstimateResult& result);

}  // namespace gpuplan
