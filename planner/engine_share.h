// The share of a card that an engine beside training takes, where the question does not state it: it decides whether
// such a job fits, and is a trainer's default.
#pragma once

#include <string>

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// One line: the share that is assumed, and up to which share the plan fits. Empty where it is stated, or where no
/// engine takes a share of the cards that train.
std::string assumed_engine_share(const EstimateRequest& request, const StrategyEstimate& estimate);

}  // namespace gpuplan
