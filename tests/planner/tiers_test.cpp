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

TEST_CASE("a plan fits where the whole range fits, does not where none of it does, and is tight between") {
  // a range of 20 % below to 10 % above, 22 GiB usable: yes up to 20 GiB, no from 27.5 GiB
  const AccuracyRange range{.low = 0.8, .high = 1.1};
  const auto verdict = [&](double process, double needed) {
    MemoryTiers t;
    t.usable = {22 * kGiB};
    t.process = {std::llround(process * double(kGiB))}, t.needed = {std::llround(needed * double(kGiB))};
    return fit_of(t, range);
  };
  CHECK(verdict(19.9, 19.9) == Fit::Yes);
  CHECK(verdict(20.1, 19.9) == Fit::Tight);
  CHECK(verdict(22.0, 22.0) == Fit::Tight);  // the card's whole memory is no yes
  CHECK(verdict(27.4, 27.4) == Fit::Tight);
  CHECK(verdict(27.6, 27.4) == Fit::Tight);
  CHECK(verdict(27.6, 27.6) == Fit::No);
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
        gpu.framework_memory = {std::llround(share * double(free.tiers.process.count) / margin)};
      });
      const StrategyEstimate e = estimate(r).strategies.front();
      CAPTURE(share);
      CHECK(e.tiers.process == free.tiers.process);
      CHECK(e.fit == Fit::Tight);
      CHECK_FALSE(e.why_not_yes.empty());
    }
  }
}
