// Kernels by row: a block or a warp for each, eight elements of it for a thread at a time, sums across its threads.
#pragma once

#include "device/cuda/number.cuh"

namespace gpuplan::cuda {

constexpr int kWarp = 32, kRowThreads = 256, kNumWarps = kRowThreads / kWarp;
constexpr unsigned kAll = 0xffffffffU;  // lanes

/// Eight elements of a row from `at` on, as far as `width` goes.
__device__ inline int size_at(std::int64_t at, std::int64_t width) {
  return width - at >= kEight ? kEight : int(width - at);
}

/// Of all lanes of the warp; every lane gets it.
__device__ inline float warp_sum(float x) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(kAll, x, lane);
  return x;
}

/// Of all threads of the block; every thread gets it. A kernel that calls it twice waits for the block in between.
__device__ inline float block_sum(float x) {
  __shared__ float parts[kNumWarps];
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kNumWarps; ++warp) sum += parts[warp];
  return sum;
}

/// Who works on a row together.
struct BlockPerRow {
  static constexpr int kSize = kRowThreads, kRows = 1;
  __device__ static std::int64_t row() { return blockIdx.x; }
  __device__ static int member() { return int(threadIdx.x); }
  __device__ static float sum(float x) { return block_sum(x); }
  __device__ static void wait() { __syncthreads(); }  // between two sums
};
struct WarpPerRow {
  static constexpr int kSize = kWarp, kRows = kNumWarps;
  __device__ static std::int64_t row() { return std::int64_t(blockIdx.x) * kRows + threadIdx.x / kWarp; }
  __device__ static int member() { return int(threadIdx.x % kWarp); }
  __device__ static float sum(float x) { return warp_sum(x); }
  __device__ static void wait() {}
};

}  // namespace gpuplan::cuda
