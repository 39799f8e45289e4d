#include "cuda_device/kernels/bench.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

void check_attention(const AttentionProblem& problem) {
  CAPTURE(problem.queries);
  CAPTURE(problem.keys);
  CAPTURE(problem.head_size);
  CAPTURE(to_string(problem.dtype));
  Bench bench;
  const auto size_q = problem.batch * problem.heads * problem.queries * problem.head_size;
  const auto size_k = problem.batch * problem.kv_heads * problem.keys * problem.head_size;
  const Tensor q = bench.random(size_q, problem.dtype, -2, 2, 1), k = bench.random(size_k, problem.dtype, -2, 2, 2);
  const Tensor v = bench.random(size_k, problem.dtype, -1, 1, 3), out = bench.empty(size_q, problem.dtype);
  const Tensor scores = bench.empty(problem.scores_bytes().count / size_of(problem.dtype), problem.dtype);
  bench.device.attention(problem, q.data(), k.data(), v.data(), out.data(), scores.data(), *bench.stream);
  const Numbers expected = naive_attention(problem, bench.download(q), bench.download(k), bench.download(v));
  check_close(bench.download(out), expected, tolerance_of(problem.dtype), 1);
}

constexpr AttentionMethod kKernels[] = {AttentionMethod::Flash, AttentionMethod::Eager};

}  // namespace

TEST_CASE("attention is softmax(q k^T / sqrt(d)) v in every format, causal and not") {
  for (const AttentionMethod kernel : kKernels)
    for (const Dtype dtype : kFloats)
      for (const bool is_causal : {false, true})
        check_attention({.heads = 2,
                         .kv_heads = 2,
                         .queries = 100,
                         .keys = 100,
                         .head_size = 64,
                         .dtype = dtype,
                         .kernel = kernel,
                         .is_causal = is_causal});
}

TEST_CASE("attention takes every head size that models have") {
  for (const AttentionMethod kernel : kKernels)
    for (const Dtype dtype : kFloats)
      for (const std::int64_t head_size : {16, 80, 96, 128})
        check_attention({.heads = 1,
                         .kv_heads = 1,
                         .queries = 70,
                         .keys = 70,
                         .head_size = head_size,
                         .dtype = dtype,
                         .kernel = kernel});
}

TEST_CASE("query heads share key heads, in each sequence of the batch") {
  for (const AttentionMethod kernel : kKernels)
    for (const Dtype dtype : kFloats)
      check_attention({.batch = 2,
                       .heads = 6,
                       .kv_heads = 2,
                       .queries = 33,
                       .keys = 33,
                       .head_size = 64,
                       .dtype = dtype,
                       .kernel = kernel});
}

TEST_CASE("causal attention with more keys than queries sees the earlier keys, and with fewer it may see none") {
  for (const AttentionMethod kernel : kKernels)
    for (const Dtype dtype : kFloats) {
      check_attention(
          {.heads = 1, .kv_heads = 1, .queries = 5, .keys = 90, .head_size = 64, .dtype = dtype, .kernel = kernel});
      check_attention(
          {.heads = 1, .kv_heads = 1, .queries = 90, .keys = 20, .head_size = 64, .dtype = dtype, .kernel = kernel});
    }
}

TEST_CASE("attention of more queries than a block has") {
  for (const AttentionMethod kernel : kKernels)
    for (const Dtype dtype : kFloats)
      for (const bool is_causal : {false, true})
        check_attention({.heads = 2,
                         .kv_heads = 1,
                         .queries = 150,
                         .keys = 190,
                         .head_size = 16,
                         .dtype = dtype,
                         .kernel = kernel,
                         .is_causal = is_causal});
}
