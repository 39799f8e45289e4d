// One GPU as NVML describes it.
#pragma once

#include "cluster/local_machine.h"
#include "cluster/nvml.h"

namespace gpuplan {

/// Only the name is essential; the rest may be unknown. Throws EnvError.
LocalGpu read_gpu(const nvml::Library& library, nvml::Handle device);

}  // namespace gpuplan
