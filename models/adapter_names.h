// The modules that a recipe names for its adapters, against those that the model has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/framework.h"
#include "models/model_spec.h"
#include "models/recipe.h"
#include "models/weights.h"

namespace gpuplan {

/// A target that names no module of the model is a typing slip.
std::optional<InputError> wrong_name(const std::vector<std::string>& wanted, const ModelWeights& weights,
                                     bool linears_only, const char* flag);

/// Modules that the library takes no low-rank adapters on, where the targets reach one that the model has: the fused
/// kernels of Mamba layers read the weight of out_proj past its module.
std::optional<InputError> refused_target(const Recipe& recipe, const ModelSpec& spec, const ModelWeights& weights,
                                         const FrameworkConvention& framework);

/// A target may be a module of the checkpoint, or a parameter of the experts as the library stacks them.
std::optional<InputError> wrong_target(const Recipe& recipe, const ModelWeights& weights,
                                       const FrameworkExperts& experts);

}  // namespace gpuplan
