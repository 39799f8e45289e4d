// Eager attention as products, the same on every device.
#pragma once

#include <cmath>

#include "device/device.h"

namespace gpuplan {

/// The two products of eager attention. The query heads that share a key head follow each other, so they are one taller
/// matrix: q [batch x kv_heads][group x queries, head_size].
struct EagerProducts {
  GemmProblem scores, values;
};
inline EagerProducts eager_products(const AttentionProblem& p) {
  const GemmType type = p.dtype == Dtype::F32 ? GemmType::F32 : p.dtype == Dtype::BF16 ? GemmType::BF16 : GemmType::F16;
  const auto batch = p.batch * p.kv_heads, rows = p.heads / p.kv_heads * p.queries;
  return {.scores = {.m = rows,
                     .n = p.keys,
                     .k = p.head_size,
                     .batch = batch,
                     .type = type,
                     .layout = GemmLayout::Forward,
                     .output = p.dtype,
                     .alpha = 1 / std::sqrt(float(p.head_size))},
          .values = {.m = rows,
                     .n = p.head_size,
                     .k = p.keys,
                     .batch = batch,
                     .type = type,
                     .layout = GemmLayout::InputGradient,
                     .output = p.dtype}};
}

}  // namespace gpuplan
