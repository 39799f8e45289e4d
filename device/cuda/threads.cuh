// How kernels divide their work among threads: by elements, without neighbours, each thread eight of them (memory
// bandwidth is the limit); or by rows, a block or a warp for each, with sums across its threads.
#pragma once

#include "device/cuda/number.cuh"

namespace gpuplan::cuda {

// --- by elements ----------------------------------------------------------------------------------------------------

constexpr int kThreads = 256;

inline unsigned num_blocks(std::int64_t count) {
  return unsigned((count + kThreads * kEight - 1) / (kThreads * kEight));
}

/// The elements of this thread: [at, at + size).
struct Mine {
  std::int64_t at;
  int size;
  bool is_whole;  // may be moved as a vector
};
__device__ inline Mine my_elements(std::int64_t count, bool is_aligned) {
  const std::int64_t at = (std::int64_t(blockIdx.x) * kThreads + threadIdx.x) * kEight, left = count - at;
  const int size = left >= kEight ? kEight : left > 0 ? int(left) : 0;
  return {at, size, is_aligned && size == kEight};
}

/// 0 where exp overflows.
__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + __expf(-x)); }

// --- by rows --------------------------------------------------------------------------------------------------------

constexpr int kWarp = 32, kRowThreads = 256, kNumWarps = kRowThreads / kWarp;
constexpr unsigned kAll = 0xffffffffU;  // lanes

/// Eight elements of a row from `at` on, as far as `width` goes.
__device__ inline int size_at(std::int64_t at, std::int64_t width) {
  return width - at >= kEight ? kEight : int(width - at);
}

/// Sums over all lanes of the warp; every lane gets it.
__device__ inline float warp_sum(float x) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(kAll, x, lane);
  return x;
}

/// Sums over all threads of the block; every thread gets it. A kernel that calls it twice waits for the block in
/// between.
__device__ inline float block_sum(float x) {
  __shared__ float parts[kNumWarps];
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kNumWarps; ++warp) sum += parts[warp];
  return sum;
}

/// Threads that work on a row together.
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
