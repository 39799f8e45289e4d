// What people should know of a detected machine: lines for ClusterSpec::assumptions.
#pragma once

#include "cluster/local_machine.h"

namespace gpuplan {

/// What neither is free nor the driver's own.
Bytes memory_in_use(const LocalGpu& gpu);

/// What works less well than these GPUs could, what memory is in use, and where all this is from.
std::vector<std::string> words_on(const LocalMachine& machine);

}  // namespace gpuplan
