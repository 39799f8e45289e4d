// Without a runtime: kernels run when they are launched, whatever the stream.
#include <utility>

#include "cuda_device/emulated/launch.h"

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
