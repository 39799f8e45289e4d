// What optimizers keep that project gradients, and their spelling.
#include "models/optimizers.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace gpuplan {

TEST_CASE("GaLore keeps two moments of [m, r] and a projection of [r, n] of a matrix [m, n]") {
  const OptimizerSpec& galore = find_optimizer("galore-adamw");
  const std::int64_t m = 14'336, n = 4'096;
  // 128 x (2 x 14,336 + 4,096) elements of 2 bytes
  CHECK(optimizer_state_bytes(galore, m * n, m, n, Dtype::BF16, 128).count == 8'388'608);
  CHECK(optimizer_state_bytes(galore, m * n, n, m, Dtype::BF16, 128).count == 8'388'608);  // the longer side counts
  CHECK(optimizer_state_bytes(galore, m * n, m, n, Dtype::F32, 128).count == 2 * 8'388'608);
  // what is not projected has Adam's states: 2 x 2 bytes per element
  CHECK(optimizer_state_bytes(galore, m * n, m, n, Dtype::BF16, 0).count == 4 * m * n);
  CHECK(optimizer_state_bytes(galore, n, n, 1, Dtype::BF16, 128).count == 4 * n);
  // a rank above the matrix' own is cut: 64 x (2 x 64 + 64) x 2
  CHECK(optimizer_state_bytes(galore, 64 * 64, 64, 64, Dtype::BF16, 128).count == 64 * 192 * 2);
}

TEST_CASE("GaLore in 8 bits: moments of a byte with an absmax per 256, the projection as the gradient") {
  // 2 x (128 x 14,336 + 4 x 7,168) + 128 x 4,096 x 2
  const std::int64_t m = 14'336, n = 4'096;
  CHECK(optimizer_state_bytes(find_optimizer("galore-adamw-8bit"), m * n, m, n, Dtype::BF16, 128).count ==
        2 * (1'835'008 + 28'672) + 1'048'576);
}

TEST_CASE("Adam-mini has one state as large as the weight, AdEMAMix three") {
  CHECK(optimizer_state_bytes(find_optimizer("adam-mini"), 1'000, 10, 100, Dtype::BF16).count == 2'000);
  CHECK(optimizer_state_bytes(find_optimizer("ademamix"), 1'000, 10, 100, Dtype::BF16).count == 12'000);  // fp32
}

TEST_CASE("the source of an optimizer in 8 bits is that of no other one") {
  for (const OptimizerSpec& one : optimizers())
    for (const OptimizerSpec& other : optimizers())
      if (one.is_8bit && !other.is_8bit && one.source.find("1-byte") != std::string_view::npos)
        CHECK_MESSAGE(one.source != other.source, std::string(other.name));
}

TEST_CASE("an optimizer's rank stands behind its name, and only where gradients are projected") {
  Recipe recipe;
  set_optimizer_text(recipe, "galore-adamw=64");
  CHECK(recipe.optimizer_rank == 64);
  CHECK(optimizer_text(recipe) == "galore-adamw=64");
  set_optimizer_text(recipe, "adamw-8bit");
  CHECK(optimizer_text(recipe) == "adamw-8bit");
  CHECK_THROWS_AS(set_optimizer_text(recipe, "adamw-8bit=4"), InputError);
  CHECK_THROWS_AS(set_optimizer_text(recipe, "galore-adamw=0"), InputError);
  CHECK_THROWS_AS(set_optimizer_text(recipe, "galore"), InputError);
}

}  // namespace gpuplan
