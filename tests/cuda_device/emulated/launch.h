// Where the emulator hands over a kernel that was launched: run at once (at_once.cpp), or in the order of a fake stream
// (fake/runtime/launch.cpp). What is wrong with the launch is told by cudaGetLastError, as in CUDA.
#pragma once

#include <functional>

#include <cuda_runtime_api.h>

namespace gpuplan::emulation {

struct Launch {
  unsigned grid{}, block{};
  cudaStream_t stream{};
};
void enqueue(const Launch& launch, const std::function<void()>& run);

}  // namespace gpuplan::emulation
