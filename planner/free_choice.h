// What is not given is free: of the values that the rows of planner/changes allow where nobody gave one, those under
// which the plan is best. A search from neighbour to neighbour, so that no single change of a free setting beats the
// choice by more than the error.
#pragma once

#include <optional>
#include <vector>

#include "planner/changes.h"

namespace gpuplan {

struct FreeChoice {
  EstimateRequest request;                // with what was chosen
  std::vector<Setting> settings;          // chosen in the place of defaults
  std::optional<StrategyEstimate> best;   // under them, without its limits; nothing where none fits
  std::optional<StrategyEstimate> usual;  // the best with the defaults; nothing where none fits
};

/// Chooses what the request leaves free (`not_given.are_chosen`), of as good ones the fewest changes of defaults. What
/// rests on the host's memory is tried where nothing else keeps all GPUs at work. Where nothing fits, the choice comes
/// nearest.
FreeChoice choose_freely(const Variant& asked);

/// The best plan of a request: under what is chosen freely, or as it is given. Nothing where none fits.
std::optional<StrategyEstimate> best_answer(const Variant& asked);

}  // namespace gpuplan
