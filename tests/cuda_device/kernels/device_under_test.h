// The device that the kernel tests run on: a GPU, or the emulator.
#pragma once

#include "device/device.h"

namespace gpuplan::test {

Device& device_under_test();

}  // namespace gpuplan::test
