// Verdicts: from the range of measurements around a prediction, never from a figure that was cut to the card.
#include "planner/tiers.h"

#include <cmath>

#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "planner/asked.h"
#include "planner/estimate.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr std::int64_t kGiB = std::int64_t(1) << 30;

}  // namespace

TEST_CASE("a verdict is the probability that measurements around the prediction are within the card") {
  // a tenth lies 20 % below, a tenth 10 % above, and 22 GiB are usable: logarithms are normal on either side
  const AccuracyRange range{.low = 0.8, .high = 1.1};
  const auto chance = [&](double needed, bool has_range = true) {
    MemoryTiers t;
    t.usable = t.capacity = {22 * kGiB};
    t.process = {40 * kGiB}, t.needed = {std::llround(needed * double(kGiB))};  // the allocator gives its cache back
    return chance_to_run(t, has_range ? std::optional(range) : std::nullopt);
  };
  CHECK(chance(20) == doctest::Approx(0.9));
  CHECK(chance(22) == doctest::Approx(0.5));
  CHECK(chance(27.5) == doctest::Approx(0.1));
  // 80 % of a normal distribution lie below 0.8416 of its deviations, and a tenth beyond 1.2816 of them
  CHECK(chance(22 / std::pow(1.1, 0.8416 / 1.2816)) == doctest::Approx(0.8).epsilon(1e-4));
  CHECK(chance(21.9, false) == 1);
  CHECK(chance(22.1, false) == 0);
  double before = 1;
  for (double needed = 15; needed < 40; needed += 0.5) {
    const double now = chance(needed);
    CHECK(now <= before);
    before = now;
  }
}

TEST_CASE("verdicts are words for probabilities, and what is counted exactly must be on the card") {
  CHECK(fit_of(0.8) == Fit::Yes);
  CHECK(fit_of(0.79) == Fit::Tight);
  CHECK(fit_of(0.2) == Fit::Tight);
  CHECK(fit_of(0.19) == Fit::Unlikely);
  CHECK(fit_of(0.009) == Fit::No);
  MemoryTiers t;
  t.needed = {23 * kGiB}, t.usable = t.capacity = {22 * kGiB};
  const AccuracyRange range{.low = 0.5, .high = 1.1};
  t.resident = {21 * kGiB};
  CHECK(chance_to_run(t, range) > 0.4);
  t.resident = {23 * kGiB};
  CHECK(chance_to_run(t, range) == 0);
}

TEST_CASE("a prediction near the limit of a card is what a card without that limit would use, and tight") {
  for (const Method method : {Method::Full, Method::Lora, Method::Qlora}) {
    EstimateRequest r = asked("llama-3.2-1b", "1xA6000", method);
    r.strategy = "single";
    const StrategyEstimate free = estimate(r).strategies.front();
    REQUIRE(free.memory_range);
    REQUIRE(free.memory_range->low < 0.97);
    REQUIRE(free.memory_range->high > 1.03);
    const double margin = double(free.tiers.usable.count) / double(free.tiers.capacity.count);
    for (const double share : {0.98, 1.0, 1.02}) {  // of the prediction
      r.cluster.gpus.change_each([&](GpuSpec& gpu) {
        gpu.framework_memory = {std::llround(share * double(free.tiers.needed.count) / margin)};
      });
      const StrategyEstimate e = estimate(r).strategies.front();
      CAPTURE(share);
      CHECK(e.tiers.process == free.tiers.process);
      CHECK(e.fit == Fit::Tight);
      CHECK_FALSE(e.why_not_yes.empty());
    }
  }
}
