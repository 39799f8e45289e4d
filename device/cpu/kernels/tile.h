// Products of small fp32 matrices that lie in cache: C [m, n] (+)= A B. The inner step keeps 4 rows x up to kMaxLanes vectors of C in
// registers: 16 accumulators cover the latency of the fused multiply-add, with half a load per operation.
#pragma once

#include <cstdint>

#include "device/narrow_floats.h"

namespace gpuplan {
namespace {

#if defined(__AVX512F__)
constexpr std::int64_t kLane = 16;
constexpr int kMaxLanes = 4;
#elif defined(__AVX2__)
constexpr std::int64_t kLane = 8;
constexpr int kMaxLanes = 2;  // 16 registers
#else
constexpr std::int64_t kLane = 4;
constexpr int kMaxLanes = 2;
#endif
constexpr std::int64_t kTileRows = 4;

using Lane [[gnu::vector_size(kLane * sizeof(float))]] = float;

constexpr std::int64_t round_up(std::int64_t count, std::int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

/// Element (i, j) is data[i * row + j * column].
struct Strided {
  const float* data;
  std::int64_t row, column;
};

template <int lanes>
GPUPLAN_INLINE void multiply_step(float* c, std::int64_t c_row, Strided a, const float* b, std::int64_t b_row, std::int64_t k,
                                  bool accumulates) {
  Lane sum[kTileRows][lanes];
  for (int i = 0; i < kTileRows; ++i)
    for (int j = 0; j < lanes; ++j) {
      sum[i][j] = Lane{};
      if (accumulates) __builtin_memcpy(&sum[i][j], c + i * c_row + j * kLane, sizeof(Lane));
    }
  for (std::int64_t p = 0; p < k; ++p) {
    Lane right[lanes];
    for (int j = 0; j < lanes; ++j) __builtin_memcpy(&right[j], b + p * b_row + j * kLane, sizeof(Lane));
    for (int i = 0; i < kTileRows; ++i)
      for (int j = 0; j < lanes; ++j) sum[i][j] += a.data[i * a.row + p * a.column] * right[j];
  }
  for (int i = 0; i < kTileRows; ++i)
    for (int j = 0; j < lanes; ++j) __builtin_memcpy(c + i * c_row + j * kLane, &sum[i][j], sizeof(Lane));
}

/// Requires: m is a multiple of kTileRows and n of kLane. B is walked in column blocks that stay in the first-level cache.
inline void tile_multiply(float* c, std::int64_t c_row, Strided a, const float* b, std::int64_t b_row, std::int64_t m, std::int64_t n,
                          std::int64_t k, bool accumulates) {
  for (std::int64_t j = 0; j < n;) {
    const bool is_wide = n - j >= kMaxLanes * kLane;
    for (std::int64_t i = 0; i < m; i += kTileRows) {
      const Strided rows{a.data + i * a.row, a.row, a.column};
      float* const to = c + i * c_row + j;
      if (is_wide) multiply_step<kMaxLanes>(to, c_row, rows, b + j, b_row, k, accumulates);
      else multiply_step<1>(to, c_row, rows, b + j, b_row, k, accumulates);
    }
    j += is_wide ? kMaxLanes * kLane : kLane;
  }
}

}  // namespace
}  // namespace gpuplan
