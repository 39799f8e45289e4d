// What libgpuplan_cpu.so exports.
#include "device/backend.h"
#include "device/cpu/device.h"

namespace gpuplan {
namespace {

class CpuBackend final : public DeviceBackend {
 public:
  int num_devices() const override { return 1; }
  std::unique_ptr<Device> open(const DeviceOptions& options) override { return open_cpu_device(options.num_threads); }
};

}  // namespace
}  // namespace gpuplan

extern "C" __attribute__((visibility("default"))) gpuplan::DeviceBackend* gpuplan_device_backend(int abi) {
  static gpuplan::CpuBackend backend;
  return abi == gpuplan::kDeviceAbi ? &backend : nullptr;
}
