// The answer of `gpuplan estimate`: every strategy on one cluster, what fits, how fast, at what cost, and one
// recommended.
#pragma once

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// Says which rows have their limits and the parts of their peak: all, or the one that strategy_in_focus() names.
enum class InFull : std::uint8_t { All, InFocus };

/// Evaluates every strategy (or the one asked for). Throws InputError for a recipe that makes no sense.
EstimateResult estimate(const EstimateRequest& request, InFull in_full = InFull::All);

/// The recommended row; where nothing fits, the one that needs the least memory; null where nothing is possible.
const StrategyEstimate* strategy_in_focus(const EstimateResult& result);

/// Every default and convention that shaped the figures, one sentence each.
std::vector<std::string> list_assumptions(const EstimateRequest& request, const EstimateResult& result);

}  // namespace gpuplan
