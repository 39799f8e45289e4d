// Runs the .cu files' kernels on the CPU: each thread of a block is a fiber that runs until it waits for its warp or
// block, so a missing barrier shows as a wrong result. Included before the sources by the compiler's command line
// (CMakeLists.txt).
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
#define __shared__ static  // blocks run one after the other; what is extern is dynamic_shared (CMakeLists.txt)
#define __launch_bounds__(...)

namespace gpuplan::emulation {

struct Index {
  unsigned x;
};

/// What launchers ask of the GPU. Shared memory that a block may have, in bytes.
struct Gpu {
  int capability_major = 8, shared_memory = 99 * 1024;  // as of sm_86
};
extern Gpu g_gpu;

void wait_for_warp();
void wait_for_block();
/// Runs `body` once per thread. The global threadIdx and blockDim say which.
void run_block(unsigned num_threads, const std::function<void()>& body);
/// Memory through which this thread's warp exchanges `size` bytes, at most kExchange. The lanes of a warp call it in
/// step; what one call gave is used again by the call after the next, so that one barrier, behind the writing, is
/// enough.
constexpr std::size_t kExchange = 1024;
void* next_exchange(std::size_t size);

/// The block's dynamic shared memory: as large as the launch says, full of NaN when a block starts.
void set_dynamic_shared(std::size_t size);
void* dynamic_shared();

/// A copy of this thread that is done by its next copy_now; zeros when `from` is null.
void copy_later(void* to, const void* from, std::size_t size);
void copy_now();

}  // namespace gpuplan::emulation

extern gpuplan::emulation::Index threadIdx, blockIdx, blockDim;

inline void __syncthreads() { gpuplan::emulation::wait_for_block(); }
inline void __syncwarp() { gpuplan::emulation::wait_for_warp(); }
inline float __expf(float x) { return std::exp(x); }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }

inline float __shfl_sync(unsigned, float x, int lane) {
  float* const exchange = static_cast<float*>(gpuplan::emulation::next_exchange(32 * sizeof(float)));
  exchange[threadIdx.x % 32] = x;
  __syncwarp();
  return exchange[lane];
}
inline float __shfl_xor_sync(unsigned mask, float x, int lanes) {
  return __shfl_sync(mask, x, int(threadIdx.x % 32) ^ lanes);
}

inline int __ffs(int bits) { return __builtin_ffs(bits); }

/// What kernel<<<grid, block, shared, stream>>> becomes. The last block goes first: what relies on the usual order of
/// blocks fails.
template <class Kernel>
auto emulate(unsigned grid, unsigned block, std::size_t shared, cudaStream_t stream, Kernel kernel) {
  return [=](auto... arguments) {
    gpuplan::emulation::enqueue({grid, block, stream}, [=] {
      gpuplan::emulation::set_dynamic_shared(shared);
      for (unsigned left = grid; left > 0; --left) {
        blockIdx.x = left - 1;
        gpuplan::emulation::run_block(block, [&] { kernel(arguments...); });
      }
    });
  };
}
