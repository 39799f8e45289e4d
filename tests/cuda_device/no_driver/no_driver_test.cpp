// Without a driver opening the CUDA library works, and using it says one clear thing.
#include <doctest/doctest.h>

#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "device/backend.h"
#include "run/files/error_text.h"

using namespace gpuplan;
using test::error_text;

namespace {

constexpr const char* kNoDriver =
    "no NVIDIA driver on this machine: install it, or take the CPU (run --gpus 2xcpu, calibrate --device cpu)";

}  // namespace

TEST_CASE("without a driver counting and opening GPUs say so in one line") {
  DeviceBackend& backend = device_backend(DeviceKind::Cuda);
  CHECK(error_text<EnvError>([&] { return backend.num_devices(); }) == kNoDriver);
  CHECK(error_text<EnvError>([&] { return backend.open({.index = 0}); }) == kNoDriver);
}

TEST_CASE("without a driver NCCL's library opens, and its id is text or an error in words") {
  if (!std::filesystem::exists(device_library_dirs().front() / "libgpuplan_nccl.so")) return;
  CollectiveBackend& backend = collective_backend(DeviceKind::Cuda);
  std::string id;
  const std::string error = error_text<EnvError>([&] { id = backend.make_id(); });
  INFO(error);
  CHECK((id.size() == 256 || error.starts_with("NCCL ")));
}

int main(int argc, char** argv) {
  if (std::filesystem::exists("/dev/nvidiactl")) {
    std::cout << "skipped: this machine has an NVIDIA driver\n";
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
