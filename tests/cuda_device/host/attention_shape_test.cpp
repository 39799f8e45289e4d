#include <doctest/doctest.h>

#include "device/cuda/capability.h"

using namespace gpuplan;
using namespace gpuplan::cuda;

TEST_CASE("attention says which head sizes and formats it takes") {
  for (const std::int64_t head_size : {1, 64, 80, 256})
    CHECK(attention_obstacle(Dtype::BF16, head_size, {8, 0}).empty());
  for (const std::int64_t head_size : {0, 257})
    CHECK(attention_obstacle(Dtype::BF16, head_size, {8, 0}).find("up to 256") != std::string::npos);
  CHECK(attention_obstacle(Dtype::BF16, 64, {7, 5}) == "sm_75 has no tensor cores for bf16");
  CHECK(attention_obstacle(Dtype::F16, 64, {7, 5}).empty());
  CHECK_FALSE(attention_obstacle(Dtype::F8E4M3, 64, {9, 0}).empty());
}
