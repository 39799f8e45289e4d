// What attention and its gradients share: where the rows of each head lie, and rows to fp32 tiles and back.
#pragma once

#include <cstring>

#include "device/cpu/kernels/numbers.h"

namespace gpuplan {
namespace {

/// Heads are numbered through the batch: head h is head h % heads of sequence h / heads.
struct AttentionLayout {
  AttentionShape shape;
  std::int64_t q_row, kv_row;  // elements from one row of a head to the next

  explicit AttentionLayout(const AttentionShape& s)
      : shape(s),
        q_row(s.heads * s.head_size),
        kv_row(s.kv_heads * s.head_size) {
    GPUPLAN_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "key heads do not divide the query heads");
  }
  std::int64_t num_heads() const { return shape.batch * shape.heads; }
  std::int64_t group() const { return shape.heads / shape.kv_heads; }
  /// First element of query head h, and of the key head that it shares.
  std::int64_t q_begin(std::int64_t h) const {
    return h / shape.heads * shape.seq * q_row + h % shape.heads * shape.head_size;
  }
  std::int64_t kv_begin(std::int64_t h) const {
    return h / shape.heads * shape.seq * kv_row + h % shape.heads / group() * shape.head_size;
  }
};

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
