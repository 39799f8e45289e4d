// Attention as the kernels see it. Plain C++, so that it is tested without a GPU.
#pragma once

#include <string>

#include "device/cuda/capability.h"
#include "device/device.h"

namespace gpuplan::cuda {

inline constexpr std::int64_t kLargestFlashHead = 128;  // the accumulators of a larger head do not fit the registers

/// Why the flash kernel cannot run this; empty when it can. Tensor cores work on 16 x 16 tiles; fp32 runs on the plain cores.
inline std::string flash_obstacle(const AttentionProblem& p, ComputeCapability gpu) {
  if (p.dtype != Dtype::F32 && p.dtype != Dtype::F16 && p.dtype != Dtype::BF16)
    return "flash attention takes fp32, fp16 and bf16, not " + std::string(to_string(p.dtype));
  if (p.head_size <= 0 || p.head_size % 16 != 0 || p.head_size > kLargestFlashHead)
    return "flash attention takes head sizes that are multiples of 16 up to 128, not " + std::to_string(p.head_size) +
           ": use the eager kernel";
  if (p.dtype == Dtype::BF16 && !multiplies(gpu, GemmType::BF16))
    return architecture_name(gpu) + " has no tensor cores for bf16";
  return {};
}

/// The two products of eager attention. The query heads that share a key head follow each other, so they are one taller matrix:
/// q [batch x kv_heads][group x queries, head_size].
struct EagerProducts {
  GemmProblem scores, values;
};
inline EagerProducts eager_products(const AttentionProblem& p, float scale) {
  const GemmType type = p.dtype == Dtype::F32    ? GemmType::F32
                        : p.dtype == Dtype::BF16 ? GemmType::BF16
                                                 : GemmType::F16;
  const auto batch = p.batch * p.kv_heads, rows = p.heads / p.kv_heads * p.queries;
  return {.scores = {.m = rows, .n = p.keys, .k = p.head_size, .batch = batch, .type = type, .layout = GemmLayout::Forward,
                     .output = p.dtype, .alpha = scale},
          .values = {.m = rows, .n = p.head_size, .k = p.keys, .batch = batch, .type = type,
                     .layout = GemmLayout::InputGradient, .output = p.dtype}};
}

}  // namespace gpuplan::cuda
