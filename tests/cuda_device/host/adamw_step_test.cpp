#include <doctest/doctest.h>

#include "device/kernels.h"

using namespace gpuplan;

TEST_CASE("an AdamW step corrects the bias of both moments and decays the weight by itself") {
  const auto step =
      adamw_step({.learning_rate = 0.01F, .beta1 = 0.9F, .beta2 = 0.99F, .weight_decay = 0.1F, .step = 2});
  CHECK(step.rate == doctest::Approx(0.01 / (1 - 0.81)));
  CHECK(step.root == doctest::Approx(1 / std::sqrt(1 - 0.9801)));
  CHECK(step.decay == doctest::Approx(1 - 0.01 * 0.1));
}
