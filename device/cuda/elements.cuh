// Kernels without neighbours: each thread has eight elements, and memory bandwidth is the limit.
#pragma once

#include "device/cuda/number.cuh"

namespace gpuplan::cuda {

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

}  // namespace gpuplan::cuda
