// The modules that a trainer's file names for adapters, once the model is known: PEFT takes a name that no module has,
// as long as another one is found.
#pragma once

#include <string>
#include <vector>

#include "planner/estimate.h"

namespace gpuplan {

/// Puts PEFT's own targets where the files name none, and leaves out what names no module of the model, with a note.
/// Where nothing is left, the targets stay as they were, and the planner refuses them as PEFT does. Requires:
/// request.model is set.
void settle_targets(EstimateRequest& request, std::vector<std::string>& notes);

}  // namespace gpuplan
