// Runs on GPU 0; without one it says why and is skipped.
#include <doctest/doctest.h>

#include <iostream>

#include "base/error.h"
#include "cuda_device/kernels/device_under_test.h"
#include "device/backend.h"

namespace gpuplan::test {

Device& device_under_test() {
  static const std::unique_ptr<Device> device = device_backend(DeviceKind::Cuda).open({.index = 0});
  return *device;
}

}  // namespace gpuplan::test

int main(int argc, char** argv) {
  try {
    if (gpuplan::device_backend(gpuplan::DeviceKind::Cuda).num_devices() == 0) {
      std::cout << "skipped: the driver shows no GPU\n";
      return 77;
    }
  } catch (const gpuplan::EnvError& error) {
    std::cout << "skipped: " << error.what() << '\n';
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
