// Runs the .cu files' kernels on the CPU: each thread of a block is a fiber that runs until it waits for its warp or block, so
// a missing barrier shows as a wrong result. Included before the sources by the compiler's command line (CMakeLists.txt).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

#include "cuda_device/emulated/launch.h"

#undef __global__
#undef __device__
#undef __shared__
#undef __launch_bounds__
#define __global__
#define __device__
#define __shared__ static  // blocks run one after the other
#define __launch_bounds__(...)

namespace gpuplan::emulation {

struct Index {
  unsigned x;
};

void wait_for_warp();
void wait_for_block();
/// Runs `body` once per thread. The global threadIdx and blockDim say which.
void run_block(unsigned num_threads, const std::function<void()>& body);
/// What this thread's warp exchanges data through, `kExchange` numbers for each lane.
constexpr int kExchange = 32;
float* warp_exchange();

}  // namespace gpuplan::emulation

extern gpuplan::emulation::Index threadIdx, blockIdx, blockDim;

inline void __syncthreads() { gpuplan::emulation::wait_for_block(); }
inline void __syncwarp() { gpuplan::emulation::wait_for_warp(); }
inline float __expf(float x) { return std::exp(x); }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }

inline float __shfl_xor_sync(unsigned, float x, int mask) {
  float* const exchange = gpuplan::emulation::warp_exchange();
  const unsigned lane = threadIdx.x % 32;
  exchange[lane] = x;
  __syncwarp();
  const float other = exchange[lane ^ unsigned(mask)];
  __syncwarp();
  return other;
}

/// What kernel<<<grid, block, 0, stream>>> becomes.
template <class Kernel>
auto emulate(unsigned grid, unsigned block, cudaStream_t stream, Kernel kernel) {
  return [=](auto... arguments) {
    gpuplan::emulation::enqueue({grid, block, stream}, [=] {
      for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)
        gpuplan::emulation::run_block(block, [&] { kernel(arguments...); });
    });
  };
}
