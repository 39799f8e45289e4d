// Memory in use on a GPU as NVML counts it: unlike cudaMemGetInfo it can be asked before there is a context, so that
// the difference is the context itself. NVML is opened at run time, and where it cannot be, nothing is known.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"

namespace gpuplan::cuda {

/// `bus_id` as cudaDeviceGetPCIBusId gives it.
std::optional<Bytes> memory_in_use(const std::string& bus_id);

/// Of the kernel module, "580.65.06"; empty when not known.
std::string driver_release();

}  // namespace gpuplan::cuda
