// A mesh for a question that gives none: layers divided among GPUs, and laid in stages, where the trainer can.
#pragma once

#include <optional>

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// `shown`: the plan that the answer is about, if any. The fastest way of its training, at its global batch, in which
/// ranks share layers or are stages; of as good ones within the error the simplest. Its flags are to be added to those
/// of the question. Nothing where the trainer has none, where the question says degrees or a strategy, or where none
/// fits and is better by more than the error.
std::optional<BetterWay> better_mesh(const EstimateResult& answer, const StrategyEstimate* shown);

/// Says whether such a way may exist: the trainer divides layers, and nobody said how.
bool may_divide_layers(const EstimateRequest& request);

}  // namespace gpuplan
