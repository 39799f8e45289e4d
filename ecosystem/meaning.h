// What a set-up means to the planner, and what a plan says in the vocabulary of set-ups. The two functions are inverse
// to each other as far as a set-up can say what a plan says.
#pragma once

#include <string>
#include <vector>

#include "ecosystem/setup.h"
#include "planner/estimate.h"

namespace gpuplan {

/// Sets recipe, strategy and options of `request` as `setup` states them; what it does not state stays as it is.
/// `notes` receives traps and what was filled in. Requires: recipe.framework. Throws InputError for what cannot be
/// planned.
void apply_setup(const Setup& setup, EstimateRequest& request, std::vector<std::string>& notes);

/// A plan as a set-up. `strategy` is that of the plan on its cluster.
Setup setup_of(const EstimateRequest& request, const Strategy& strategy);

}  // namespace gpuplan
