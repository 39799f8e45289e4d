// What this host's processor is and how much of it this process may use.
#pragma once

#include "device/device.h"

namespace gpuplan {

/// Cores by the affinity mask, fewer when the control group's quota allows less.
int num_usable_cores();

DeviceFacts cpu_facts(int num_threads);

}  // namespace gpuplan
