#include <doctest/doctest.h>

#include <cstdlib>

#include "cuda_device/kernels/device_under_test.h"
#include "device/backend.h"

namespace gpuplan::test {

Device& device_under_test() {
  static const std::unique_ptr<Device> device = device_backend(DeviceKind::Cuda).open({.index = 0});
  return *device;
}

}  // namespace gpuplan::test

int main(int argc, char** argv) {
  setenv("GPUPLAN_LIBRARY_DIR", GPUPLAN_FAKE_FOLDER, 1);
  return doctest::Context(argc, argv).run();
}
