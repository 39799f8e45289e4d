// The CPU as a Device: every call puts a task on its stream.
#pragma once

#include "device/device.h"

namespace gpuplan {

/// `num_threads` computes each stream's work; 0: all cores this process may use.
std::unique_ptr<Device> open_cpu_device(int num_threads);

}  // namespace gpuplan
