#include <doctest/doctest.h>

#include "cuda_device/naive.h"
#include "device/cuda/attention_shape.h"
#include "device/eager_attention.h"

using namespace gpuplan;
using namespace gpuplan::cuda;

TEST_CASE("flash attention says which head sizes and formats it takes") {
  AttentionProblem problem{.heads = 4, .kv_heads = 2, .queries = 8, .keys = 8, .dtype = Dtype::BF16};
  for (const std::int64_t head_size : {64, 80, 96, 128}) {
    problem.head_size = head_size;
    CHECK(flash_obstacle(problem, {8, 0}).empty());
  }
  for (const std::int64_t head_size : {0, 72, 256}) {
    problem.head_size = head_size;
    CHECK(flash_obstacle(problem, {8, 0}).find("multiples of 16") != std::string::npos);
  }
  problem.head_size = 64;
  CHECK(flash_obstacle(problem, {7, 5}) == "sm_75 has no tensor cores for bf16");
  problem.dtype = Dtype::F16;
  CHECK(flash_obstacle(problem, {7, 5}).empty());
  problem.dtype = Dtype::F8E4M3;
  CHECK_FALSE(flash_obstacle(problem, {9, 0}).empty());
}

TEST_CASE("eager attention is two products over key heads, the query heads of one below each other") {
  // 8 query heads share 2 key heads: 4 x 10 rows of 16 each, times 3 sequences
  const AttentionProblem problem{
      .batch = 3, .heads = 8, .kv_heads = 2, .queries = 10, .keys = 12, .head_size = 16, .dtype = Dtype::BF16};
  const auto [scores, values] = eager_products(problem);
  CHECK(scores.m == 40);
  CHECK(scores.n == 12);
  CHECK(scores.k == 16);
  CHECK(scores.batch == 6);
  CHECK(scores.alpha == 0.25F);
  CHECK(values.n == 16);
  CHECK(values.k == 12);
  CHECK(scores.flops() + values.flops() == problem.flops());
}
