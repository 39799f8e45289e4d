// The shared object's only export.
#include "device/backend.h"

#include "device/cuda/context.h"
#include "device/cuda/cuda_device.h"

namespace gpuplan::cuda {
namespace {

class CudaBackend final : public DeviceBackend {
 public:
  int num_devices() const override { return count_gpus(); }
  std::unique_ptr<Device> open(const DeviceOptions& options) override {
    return std::make_unique<CudaDevice>(options.index);
  }
};

}  // namespace
}  // namespace gpuplan::cuda

extern "C" __attribute__((visibility("default"))) gpuplan::DeviceBackend* gpuplan_device_backend(int abi) {
  static gpuplan::cuda::CudaBackend backend;
  return abi == gpuplan::kDeviceAbi ? &backend : nullptr;
}
