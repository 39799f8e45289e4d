// The value of --offload: "optimizer,params:nvme,activations" or "none".
#pragma once

#include <string>

#include "models/recipe.h"

namespace gpuplan {

/// Each part goes to the host unless ":nvme" follows. Throws InputError naming the part.
Offload parse_offload_list(const std::string& text);

}  // namespace gpuplan
