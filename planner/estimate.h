// The answer of `gpuplan estimate`: every strategy on one cluster, what fits, how fast, at what cost, and one
// recommended.
#pragma once

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// Evaluates every strategy (or the one asked for). Throws InputError for a recipe that makes no sense.
EstimateResult estimate(const EstimateRequest& request);

}  // namespace gpuplan
