// What the native executor runs, and who can run the rest.
#pragma once

#include "models/model_spec.h"
#include "models/numerics.h"
#include "models/recipe.h"
#include "planner/strategy.h"

namespace gpuplan {

/// Throws InputError saying what the native executor lacks and which engine has it: families that are no Llama-like
/// decoders, kernels, optimizers, offload to NVMe, dropout, DoRA, …
void require_native(const ModelSpec& model, const Recipe& recipe, const Strategy& strategy,
                    const DtypePolicy& numerics);

}  // namespace gpuplan
