// The plan at hand with something changed, estimated again (microseconds to milliseconds): the figures of every advice.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "planner/advice.h"
#include "planner/state_sizes.h"

namespace gpuplan {

/// The same plan after `change`, without its limits; nothing when the changed recipe makes no sense or is not possible
/// under the strategy.
std::optional<StrategyEstimate> what_if(const AdviceCase& c,
                                        const std::function<void(EstimateRequest&, Strategy&)>& change);

/// The same with only the recipe changed.
std::optional<StrategyEstimate> with_recipe(const AdviceCase& c, const std::function<void(Recipe&)>& change);

/// The same recipe under another strategy, taken from the answer when it is there.
std::optional<StrategyEstimate> with_strategy(const AdviceCase& c, std::string_view name);

/// Training state of the whole model under `recipe`, as one rank holds it, or before sharding.
StateSizes rank_state(const AdviceCase& c, const Recipe& recipe);
StateSizes whole_state(const AdviceCase& c, const Recipe& recipe);

/// What is trained: weights, gradients as kept for the step, fp32 masters, optimizer states.
Bytes trained_state(const StateSizes& sizes);

double per_parameter(Bytes bytes, std::int64_t parameters);

/// "12.3 GiB, 312 ms".
std::string peak_and_step(const StrategyEstimate& e);
inline Bytes peak_of(const StrategyEstimate& e) { return e.tiers.tensors; }

}  // namespace gpuplan
