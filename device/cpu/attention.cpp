#include "device/cpu/attention.h"

#include <cmath>

#include "base/error.h"
#include "device/cpu/kernels.h"

namespace gpuplan {
namespace {

GemmType gemm_type_of(Dtype dtype) {
  return dtype == Dtype::F32 ? GemmType::F32 : dtype == Dtype::BF16 ? GemmType::BF16 : GemmType::F16;
}

/// The query heads that share a key head lie one after the other, so they are rows of one product.
void eager(const AttentionProblem& p, const void* q, const void* k, const void* v, void* out, void* scores, CpuGemm& gemm) {
  const std::int64_t rows = p.heads / p.kv_heads * p.queries, batch = p.batch * p.kv_heads;
  const GemmType type = gemm_type_of(p.dtype);
  gemm.run({.m = rows, .n = p.keys, .k = p.head_size, .batch = batch, .type = type, .layout = GemmLayout::Forward, .output = p.dtype,
            .alpha = 1 / std::sqrt(float(p.head_size))}, q, k, scores);
  cpu_kernels().softmax(scores, p);
  gemm.run({.m = rows, .n = p.head_size, .k = p.keys, .batch = batch, .type = type, .layout = GemmLayout::InputGradient,
            .output = p.dtype}, scores, v, out);
}

}  // namespace

void cpu_attention(const AttentionProblem& problem, const void* q, const void* k, const void* v, void* out, void* scores,
                   CpuGemm& gemm) {
  GPUPLAN_CHECK(problem.kv_heads > 0 && problem.heads % problem.kv_heads == 0, "key heads do not divide the query heads");
  if (problem.kernel == AttentionMethod::Flash) return cpu_kernels().flash_attention(problem, q, k, v, out);
  eager(problem, q, k, v, out, scores, gemm);
}

}  // namespace gpuplan
