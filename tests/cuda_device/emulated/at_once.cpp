// Without a runtime: kernels run when they are launched, whatever the stream.
#include <utility>

#include "cuda_device/emulated/emulator.h"

namespace {

cudaError_t g_last_error = cudaSuccess;

}  // namespace

namespace gpuplan::emulation {

void enqueue(const Launch& launch, const std::function<void()>& run) {
  if (launch.grid == 0 || launch.block == 0 || launch.block > 1024)
    g_last_error = cudaErrorInvalidConfiguration;
  else
    run();
}

}  // namespace gpuplan::emulation

extern "C" cudaError_t cudaGetLastError() { return std::exchange(g_last_error, cudaSuccess); }
extern "C" cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
extern "C" cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute != cudaDevAttrComputeCapabilityMajor) return cudaErrorInvalidValue;
  *value = gpuplan::emulation::g_gpu.capability_major;
  return cudaSuccess;
}
extern "C" cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute attribute, int value) {
  const bool is_taken =
      attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value <= gpuplan::emulation::g_gpu.shared_memory;
  return is_taken ? cudaSuccess : cudaErrorInvalidValue;
}
extern "C" cudaError_t cudaMemsetAsync(void* data, int value, std::size_t size, cudaStream_t) {
  std::memset(data, value, size);
  return cudaSuccess;
}
extern "C" const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorInvalidValue ? "cudaErrorInvalidValue" : "another error";
}
extern "C" const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
