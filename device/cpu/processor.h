// What the CPU device says of itself.
#pragma once

#include "device/device.h"

namespace gpuplan {

DeviceFacts cpu_facts(int num_threads);

}  // namespace gpuplan
