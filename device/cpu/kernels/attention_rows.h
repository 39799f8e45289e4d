// Rows of a head to fp32 tiles and back.
#pragma once

#include <cstring>

#include "device/cpu/kernels/number.h"

namespace gpuplan {
namespace {

/// `rows` rows of `columns` numbers, `stride` apart, as fp32 rows of `width` filled up with zeros, then rows of zeros
/// up to `padded`.
template <class T>
GPUPLAN_INLINE void widen(float* to, const T* from, std::int64_t stride, std::int64_t rows, std::int64_t padded,
                          std::int64_t columns, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < columns; ++i) to[r * width + i] = load(from[r * stride + i]);
    for (std::int64_t i = columns; i < width; ++i) to[r * width + i] = 0;
  }
  std::memset(to + rows * width, 0, std::size_t((padded - rows) * width) * sizeof(float));
}

/// The way back.
template <class T>
GPUPLAN_INLINE void narrow(T* to, std::int64_t stride, const float* from, std::int64_t rows, std::int64_t columns,
                           std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < columns; ++i) store(to[r * stride + i], from[r * width + i]);
}

}  // namespace
}  // namespace gpuplan
