// GPUs of a machine that an engine has for itself, as many as a search finds best.
#pragma once

#include <vector>

#include "search/space.h"

namespace gpuplan {

/// Says whether a search divides GPUs between those that train and an engine: it has its own, and nobody said how many.
bool divides_gpus(const EstimateRequest& request);

/// The machines of the question with GPUs of their engine apart from those that train, once for every division that is
/// worth a look, whose flag stands with the machine's. Too small ones are left out. As they are where no engine has
/// GPUs of its own. Throws InputError where none is left.
std::vector<Hardware> divided(const SearchQuestion& question);

}  // namespace gpuplan
