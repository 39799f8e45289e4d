// Which GPUs there are.
#include <cstdio>
#include <cstring>

#include "cuda_device/fake/runtime/state.h"

using namespace gpuplan::fake;

namespace {

constexpr int kOldDriver = 11040;  // of CUDA 11.4
constexpr int kMultiprocessors = 108;

/// Bytes of shared memory that a block may have, if its launcher asked for more than 48 KiB.
/// Source: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications.
int most_shared_memory(const Gpu& gpu) {
  if (gpu.major == 7) return 64 * 1024;
  if (gpu.major == 8) return gpu.minor == 0 ? 163 * 1024 : 99 * 1024;
  return gpu.major == 9 || gpu.major == 10 ? 227 * 1024 : 99 * 1024;
}

}  // namespace

extern "C" {

/// Without a driver: 0, and success.
cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver() == Driver::Present ? CUDART_VERSION : driver() == Driver::TooOld ? kOldDriver : 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (driver() != Driver::Present) return said(cudaErrorInsufficientDriver);
  *count = num_gpus();
  return said(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

/// Makes the context, as since CUDA 12.
cudaError_t cudaSetDevice(int device) {
  if (driver() != Driver::Present) return said(cudaErrorInsufficientDriver);
  if (!gpu(device)) return said(cudaErrorInvalidDevice);
  current_device() = device;
  return said(entered());
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return said(driver() == Driver::Present ? cudaSuccess : cudaErrorInsufficientDriver);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const auto state = gpu(device);
  if (!state) return said(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s", state->facts.name.c_str());
  properties->totalGlobalMem = std::size_t(state->facts.memory);
  properties->major = state->facts.major;
  properties->minor = state->facts.minor;
  properties->multiProcessorCount = kMultiprocessors;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const auto state = gpu(device);
  if (!state) return said(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = state->facts.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = state->facts.minor; break;
    case cudaDevAttrMultiProcessorCount: *value = kMultiprocessors; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = most_shared_memory(state->facts); break;
    default: return said(cudaErrorNotSupported);
  }
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute attribute, int value) {
  if (const auto status = entered()) return said(status);
  const int most = most_shared_memory(gpu(current_device())->facts);
  const bool is_taken = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value <= most;
  return said(is_taken ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (!gpu(device)) return said(cudaErrorInvalidDevice);
  std::snprintf(text, std::size_t(size), "0000:%02X:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!gpu(device) || !gpu(peer)) return said(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (const auto status = entered()) return said(status);
  if (!gpu(peer) || peer == current_device()) return said(cudaErrorInvalidDevice);
  const auto state = gpu(current_device());
  const std::lock_guard lock(state->mutex);
  return said(state->peers.insert(peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

}  // extern "C"
