// The maps of dynamic 8-bit quantisation in device memory: read at many addresses at once, which constant memory would
// take in turn.
#pragma once

#include "device/dynamic_map.h"

namespace gpuplan::cuda {

__device__ const DynamicMap kSignedMap = dynamic_map(true);
__device__ const DynamicMap kUnsignedMap = dynamic_map(false);

}  // namespace gpuplan::cuda
