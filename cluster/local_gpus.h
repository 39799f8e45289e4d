// `local`: the GPUs of this machine as NVML reports them. The library is opened at run time and never linked.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster_spec.h"

namespace gpuplan {

struct LocalGpu {
  std::string name;  // "NVIDIA GeForce RTX 4090"
  Bytes memory, memory_free;
};

/// Every GPU in NVML's order; those of CUDA_VISIBLE_DEVICES when it lists numbers. Throws EnvError without a driver.
std::vector<LocalGpu> query_local_gpus(const char* library = "libnvidia-ml.so.1");

/// One machine with these GPUs and their usual fabric; what is not free now is in `memory_in_use`.
ClusterSpec local_cluster(const std::vector<LocalGpu>& found);

}  // namespace gpuplan
