#include "cluster/profile/collective_curve.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

CollectiveCurve two_segments() {
  return {.kind = CollectiveKind::AllReduce,
          .num_ranks = 4,
          .segments = {{.from = 1_KiB, .alpha = {20e-6}, .bandwidth = {1e9}},
                       {.from = 64_KiB, .alpha = {60e-6}, .bandwidth = {10e9}}},
          .least = 1_KiB,
          .most = 1_GiB};
}

}  // namespace

TEST_CASE("a message takes the latency and bandwidth of its range of sizes") {
  const CollectiveCurve curve = two_segments();
  CHECK(curve.time({10'000}).value == doctest::Approx(30e-6));      // 20 us + 10 kB / 1 GB/s
  CHECK(curve.time({1'000'000}).value == doctest::Approx(160e-6));  // 60 us + 1 MB / 10 GB/s
  CHECK(&curve.segment({1}) == &curve.segments[0]);
  CHECK(&curve.segment(64_KiB) == &curve.segments[1]);
  CHECK(curve.contains(1_GiB));
  CHECK_FALSE(curve.contains({1}));
}

TEST_CASE("time never falls where segments do not meet") {
  // The first ends at 20 us + 65536 / 1e9 = 85.5 us; the second would start at 66.6 us.
  CHECK(two_segments().time(64_KiB).value == doctest::Approx(85.536e-6));
}

TEST_CASE("the bus bandwidth of an all-reduce counts 2 (n - 1) / n") {
  // 1.5 * 1 MB / 160 us
  CHECK(two_segments().bus_bandwidth({1'000'000}).value == doctest::Approx(9.375e9));
}

TEST_CASE("groups of ranks have names") {
  for (const RankScope scope : {RankScope::All, RankScope::Pair})
    CHECK(parse_name<RankScope>(to_string(scope), "test") == scope);
  CHECK_THROWS_AS(parse_name<RankScope>("nodes", "test"), InputError);
}
