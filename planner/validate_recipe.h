// A recipe against itself, the model and the cluster: every contradiction is one message that names the flag.
#pragma once

#include "cluster/cluster_spec.h"
#include "models/model_spec.h"
#include "models/recipe.h"

namespace gpuplan {

/// Throws InputError naming the flag.
void validate_recipe(const Recipe& recipe, const ModelSpec& model, const ClusterSpec& cluster);

}  // namespace gpuplan
