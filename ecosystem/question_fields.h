// What a plan trains and how, field by field: export and fix compare what was wanted with what the files say by it.
#pragma once

#include <nlohmann/json.hpp>

#include "planner/estimate.h"

namespace gpuplan {

/// The recipe without its framework, and without what makes no difference under `strategy`.
nlohmann::json recipe_fields(Recipe recipe, const Strategy& strategy);

/// The strategy without its name: one state layout may have two.
nlohmann::json strategy_fields(const Strategy& strategy);

}  // namespace gpuplan
