#include <doctest/doctest.h>

#include "base/error.h"
#include "run/metrics.h"

using namespace gpuplan;

TEST_CASE("learning rate: warm-up rises in equal steps from 0, then linear falls to 0 at the end") {
  const LearningRate rate{.peak = 1, .schedule = LrSchedule::Linear, .warmup_steps = 4, .total_steps = 12};
  CHECK(rate.at(0) == 0);
  CHECK(rate.at(1) == doctest::Approx(0.25));
  CHECK(rate.at(4) == doctest::Approx(1));
  CHECK(rate.at(8) == doctest::Approx(0.5));
  CHECK(rate.at(12) == doctest::Approx(0));
}

TEST_CASE("learning rate: cosine is at half its peak in the middle of what follows the warm-up") {
  const LearningRate rate{.peak = 2, .schedule = LrSchedule::Cosine, .warmup_steps = 2, .total_steps = 10};
  CHECK(rate.at(2) == doctest::Approx(2));
  CHECK(rate.at(6) == doctest::Approx(1));
  CHECK(rate.at(10) == doctest::Approx(0).scale(1));
}

TEST_CASE("learning rate: names round trip, and an unknown one is refused") {
  for (const LrSchedule s : kLrSchedules) CHECK(parse_lr_schedule(to_string(s), "--schedule") == s);
  CHECK_THROWS_AS(parse_lr_schedule("cosin", "--schedule"), InputError);
}
