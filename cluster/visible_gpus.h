// CUDA_VISIBLE_DEVICES: which of the machine's GPUs a program sees, and in what order.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "cluster/local_machine.h"

namespace gpuplan {

struct VisibleGpu {
  std::size_t index = 0;                    // in the driver's order
  std::optional<std::size_t> mig_instance;  // named by its own UUID
};

/// As CUDA reads the variable: numbers or (the beginning of) UUIDs up to the first that names no GPU; all when it is
/// not set, none when it is empty or names one twice.
std::vector<VisibleGpu> visible_gpus(const std::vector<LocalGpu>& all, const char* variable);
std::vector<VisibleGpu> visible_gpus(const std::vector<LocalGpu>& all);  // of the environment

}  // namespace gpuplan
