// Products of small fp32 matrices that lie in cache: C [m, n] (+)= A B. The inner step keeps 4 or 8 rows x
// up to kMaxLanes vectors of C in registers: 16 accumulators (8 where there are 16 registers) cover the latency of the
// fused multiply-add, with about half a load per operation.
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
constexpr int kMaxLanes = 2;
#else
constexpr std::int64_t kLane = 4;
constexpr int kMaxLanes = 2;
#endif
constexpr std::int64_t kTileRows = 4;
constexpr int kAccumulators = 4 * kMaxLanes;

using Lane [[gnu::vector_size(kLane * sizeof(float))]] = float;

constexpr std::int64_t round_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Element (i, j) is data[i * row + j * column].
struct Strided {
  const float* data;
  std::int64_t row, column;
};

template <int rows, int lanes>
GPUPLAN_INLINE void multiply_step(float* c, std::int64_t c_row, Strided a, const float* b, std::int64_t b_row,
                                  std::int64_t k, bool accumulates) {
  Lane sum[rows][lanes];
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < lanes; ++j) {
      sum[i][j] = Lane{};
      if (accumulates) __builtin_memcpy(&sum[i][j], c + i * c_row + j * kLane, sizeof(Lane));
    }
  for (std::int64_t p = 0; p < k; ++p) {
    Lane right[lanes];
    for (int j = 0; j < lanes; ++j) __builtin_memcpy(&right[j], b + p * b_row + j * kLane, sizeof(Lane));
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < lanes; ++j) sum[i][j] += a.data[i * a.row + p * a.column] * right[j];
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < lanes; ++j) __builtin_memcpy(c + i * c_row + j * kLane, &sum[i][j], sizeof(Lane));
}

/// All rows of `lanes` vectors of columns.
template <int lanes>
GPUPLAN_INLINE void multiply_columns(float* c, std::int64_t c_row, Strided a, const float* b, std::int64_t b_row,
                                     std::int64_t m, std::int64_t k, bool accumulates) {
  constexpr int kRows = kAccumulators / lanes < 8 ? kAccumulators / lanes : 8;
  const auto rows_from = [=](std::int64_t i) { return Strided{a.data + i * a.row, a.row, a.column}; };
  std::int64_t i = 0;
  for (; i + kRows <= m; i += kRows)
    multiply_step<kRows, lanes>(c + i * c_row, c_row, rows_from(i), b, b_row, k, accumulates);
  if (i < m) multiply_step<kTileRows, lanes>(c + i * c_row, c_row, rows_from(i), b, b_row, k, accumulates);
}

/// Requires: m is a multiple of kTileRows and n of kLane. B is walked in column blocks that stay in the first-level
/// cache.
inline void tile_multiply(float* c, std::int64_t c_row, Strided a, const float* b, std::int64_t b_row, std::int64_t m,
                          std::int64_t n, std::int64_t k, bool accumulates) {
  for (std::int64_t j = 0; j < n;) {
    const std::int64_t left = (n - j) / kLane;
    const int lanes = left >= kMaxLanes ? kMaxLanes : left >= 2 ? 2 : 1;
    if (lanes == kMaxLanes)
      multiply_columns<kMaxLanes>(c + j, c_row, a, b + j, b_row, m, k, accumulates);
    else if (lanes == 2)
      multiply_columns<2>(c + j, c_row, a, b + j, b_row, m, k, accumulates);
    else
      multiply_columns<1>(c + j, c_row, a, b + j, b_row, m, k, accumulates);
    j += lanes * kLane;
  }
}

}  // namespace
}  // namespace gpuplan
