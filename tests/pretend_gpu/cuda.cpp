// A libgpuplan_cuda.so without GPUs: the CPU device with memory that the host cannot touch
// (tests/run/guarded_device.h). The program sees GPUPLAN_PRETEND_GPUS of them, named GPUPLAN_PRETEND_NAME; opening one
// leaves a mark in GPUPLAN_PRETEND_MARKS.
#include <cstdlib>
#include <fstream>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

#include "device/backend.h"
#include "run/guarded_device.h"

namespace gpuplan::test {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* const text = std::getenv(name);
  return text ? text : otherwise;
}

DeviceBackend& cpu() {
  static DeviceBackend* const backend = [] {
    void* const library =
        dlopen((variable("GPUPLAN_PRETEND_CPU", "") + "/libgpuplan_cpu.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw EnvError(std::string("the CPU library of the pretended GPUs: ") + dlerror());
    return reinterpret_cast<OpenDeviceBackend>(dlsym(library, "gpuplan_device_backend"))(kDeviceAbi);
  }();
  return *backend;
}

/// GPU $GPUPLAN_PRETEND_FULL has memory for ten buffers.
class PretendGpu final : public GuardedDevice {
 public:
  PretendGpu(std::unique_ptr<Device> inner, int index)
      : GuardedDevice(std::move(inner), variable("GPUPLAN_PRETEND_NAME", "NVIDIA RTX A6000")),
        index_(index) {}
  Buffer allocate(Bytes size) override {
    constexpr int kBuffers = 10;
    if (++num_buffers_ > kBuffers && variable("GPUPLAN_PRETEND_FULL", "") == std::to_string(index_))
      throw EnvError("out of memory on GPU " + std::to_string(index_));
    return GuardedDevice::allocate(size);
  }

 private:
  int index_, num_buffers_ = 0;
};

class PretendBackend final : public DeviceBackend {
 public:
  int num_devices() const override { return std::stoi(variable("GPUPLAN_PRETEND_GPUS", "2")); }
  std::unique_ptr<Device> open(const DeviceOptions& options) override {
    if (options.index >= num_devices()) throw EnvError("no GPU " + std::to_string(options.index));
    if (const std::string folder = variable("GPUPLAN_PRETEND_MARKS", ""); !folder.empty())
      std::ofstream(folder + "/gpu-" + std::to_string(options.index)) << getpid() << "\n";
    return std::make_unique<PretendGpu>(cpu().open({.num_threads = 1}), options.index);
  }
};

}  // namespace
}  // namespace gpuplan::test

extern "C" __attribute__((visibility("default"))) gpuplan::DeviceBackend* gpuplan_device_backend(int abi) {
  static gpuplan::test::PretendBackend backend;
  return abi == gpuplan::kDeviceAbi ? &backend : nullptr;
}
