// Work that is made of products and kernels, the same on every device: products with a bias and eager attention.
#pragma once

#include <cmath>

#include "device/device.h"

namespace gpuplan {

/// The product with a bias [n] added to every row of C [m, n], in one pass where the device has one. Requires: batch 1.
inline void gemm_and_bias(Device& device, const GemmProblem& p, const void* a, const void* b, void* c,
                          ConstNumbers bias, Stream& stream) {
  if (device.try_gemm_with_bias(p, a, b, c, bias.data, bias.dtype, stream)) return;
  device.gemm(p, a, b, c, stream);
  device.run(kernels::AddBias{.y = {c, p.output}, .bias = bias, .rows = p.m, .width = p.n}, stream);
}

/// The gradients of a weight and its bias [m], which is the column sums of A = dy [k, m]: both are added to what is
/// there when the problem accumulates, and replace it otherwise. Requires: GemmLayout::WeightGradient, batch 1,
/// alpha 1.
inline void gemm_and_bias_gradient(Device& device, const GemmProblem& p, const void* a, const void* b, void* c,
                                   Numbers gradient, Stream& stream) {
  if (device.try_gemm_with_bias_gradient(p, a, b, c, gradient.data, gradient.dtype, stream)) return;
  device.gemm(p, a, b, c, stream);
  if (!p.accumulates) device.run(kernels::Zero{gradient.data, bytes_of(p.m, gradient.dtype)}, stream);
  const ConstNumbers dy{a, operand_dtype(p.type)};
  device.run(kernels::BiasBackward{.gradient = gradient, .dy = dy, .rows = p.k, .width = p.m}, stream);
}

/// Bytes of the scores [batch, heads, seq, seq] that eager attention writes.
inline Bytes eager_scores_bytes(const AttentionShape& s) {
  return bytes_of(s.batch * s.heads * s.seq * s.seq, s.dtype);
}

/// Attention as two products and a softmax. Unlike the kernel's, rows of a head lie together: q and out are [batch,
/// heads, seq, head_size], k and v [batch, kv_heads, seq, head_size]. The query heads that share a key head follow each
/// other, so they are one taller matrix: q [batch x kv_heads][group x seq, head_size]. Requires: no window.
inline void eager_attention(Device& device, const AttentionShape& s, const void* q, const void* k, const void* v,
                            void* out, void* scores, Stream& stream) {
  const GemmType type = s.dtype == Dtype::F32 ? GemmType::F32 : s.dtype == Dtype::BF16 ? GemmType::BF16 : GemmType::F16;
  const auto batch = s.batch * s.kv_heads, rows = s.heads / s.kv_heads * s.seq;
  const GemmProblem score_product{.m = rows,
                                  .n = s.seq,
                                  .k = s.head_size,
                                  .batch = batch,
                                  .type = type,
                                  .layout = GemmLayout::Forward,
                                  .output = s.dtype,
                                  .alpha = 1 / std::sqrt(float(s.head_size))};
  const GemmProblem value_product{.m = rows,
                                  .n = s.head_size,
                                  .k = s.seq,
                                  .batch = batch,
                                  .type = type,
                                  .layout = GemmLayout::InputGradient,
                                  .output = s.dtype};
  device.gemm(score_product, q, k, scores, stream);
  device.run(kernels::Softmax{{scores, s.dtype}, s.batch * s.heads, s.seq, s.seq}, stream);
  device.gemm(value_product, scores, v, out, stream);
}

}  // namespace gpuplan
