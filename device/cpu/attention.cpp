#include "device/cpu/attention.h"

#include "base/error.h"
#include "device/cpu/kernels.h"
#include "device/eager_attention.h"

namespace gpuplan {
namespace {

void eager(const AttentionProblem& p, const void* q, const void* k, const void* v, void* out, void* scores,
           CpuGemm& gemm) {
  const EagerProducts products = eager_products(p);
  gemm.run(products.scores, q, k, scores);
  cpu_kernels().softmax(scores, p);
  gemm.run(products.values, scores, v, out);
}

}  // namespace

void cpu_attention(const AttentionProblem& problem, const void* q, const void* k, const void* v, void* out,
                   void* scores, CpuGemm& gemm) {
  GPUPLAN_CHECK(problem.kv_heads > 0 && problem.heads % problem.kv_heads == 0,
                "key heads do not divide the query heads");
  if (problem.kernel == AttentionMethod::Flash) return cpu_kernels().flash_attention(problem, q, k, v, out);
  eager(problem, q, k, v, out, scores, gemm);
}

}  // namespace gpuplan
