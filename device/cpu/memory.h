// Host memory, which is also the memory of the CPU device.
#pragma once

#include "device/device.h"

namespace gpuplan {

/// Aligned to kAlignment, large ones to 2 MiB and asked to be huge pages. Throws EnvError with what is asked and what
/// is free.
Buffer host_memory(Bytes size);

Bytes total_host_memory();
/// What can be had without swapping, by the kernel and by the limit of this process' control group.
Bytes free_host_memory();

}  // namespace gpuplan
