// One GPU opened by this process: what it is, how much of its memory is free, and which libraries drive it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/cuda/capability.h"

namespace gpuplan::cuda {

/// What `cudaGetDeviceProperties` says, as far as we use it.
struct GpuIdentity {
  int index{};
  std::string name, bus_id;
  ComputeCapability capability;
  Bytes memory;
  std::int64_t num_multiprocessors{};
};

/// Throw EnvError: no driver, a driver older than this build, no such GPU, no kernels for it.
int count_gpus();
GpuIdentity identify_gpu(int index);

Bytes free_memory();  // of the current device
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace gpuplan::cuda
