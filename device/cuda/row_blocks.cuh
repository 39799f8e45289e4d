// Kernels by row: a block for each, eight elements of it for a thread at a time, sums across its threads.
#pragma once

#include "device/cuda/number.cuh"

namespace gpuplan::cuda {

constexpr int kWarp = 32, kRowThreads = 256, kNumWarps = kRowThreads / kWarp;
constexpr unsigned kAll = 0xffffffffU;  // lanes

/// Eight elements of a row from `at` on, as far as `width` goes.
__device__ inline int size_at(std::int64_t at, std::int64_t width) { return width - at >= kEight ? kEight : int(width - at); }

/// Of all threads of the block; every thread gets it. A kernel that calls it twice waits for the block in between.
__device__ inline float block_sum(float x) {
  __shared__ float parts[kNumWarps];
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(kAll, x, lane);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kNumWarps; ++warp) sum += parts[warp];
  return sum;
}

}  // namespace gpuplan::cuda
