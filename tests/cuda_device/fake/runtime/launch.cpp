// Kernels that the emulator runs, in the order of a fake stream.
#include "cuda_device/emulated/launch.h"

#include "cuda_device/fake/runtime/state.h"

namespace gpuplan::emulation {
namespace {

using namespace gpuplan::fake;

constexpr unsigned kMostThreads = 1024;

/// What one thread runs at a time: threadIdx and shared memory are one for all.
std::mutex& emulator() {
  static std::mutex& only = *new std::mutex;
  return only;
}

/// A kernel goes to a stream of the current GPU only.
cudaError_t launched(const Launch& launch, std::function<void()> run) {
  if (const auto status = entered()) return status;
  if (!has_kernels()) return cudaErrorNoKernelImageForDevice;
  if (launch.grid == 0 || launch.block == 0 || launch.block > kMostThreads) return cudaErrorInvalidConfiguration;
  const CUstream_st on = resolved(launch.stream);
  if (on.device != current_device()) return cudaErrorInvalidResourceHandle;
  return enqueue_at_launch(on, [gpu = on.gpu, run = std::move(run)] {
    if (is_gpu_to_be_lost()) return unless_lost(gpu, [gpu] { gpu->lost = cudaErrorLaunchFailure; });
    return unless_lost(gpu, [run] {
      const std::lock_guard lock(emulator());
      run();
    });
  });
}

}  // namespace

void enqueue(const Launch& launch, const std::function<void()>& run) { said(launched(launch, run)); }

}  // namespace gpuplan::emulation
