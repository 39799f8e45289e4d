#include <doctest/doctest.h>

#include "calibrate/synthetic_samples.h"
#include "fit/make_profile.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

/// Small messages in 20 us at 1 GB/s; from 64 KiB on 60 us at 12 GB/s, as a change of protocol gives.
double two_protocols(double bytes) { return bytes < 65536 ? 20e-6 + bytes / 1e9 : 60e-6 + bytes / 12e9; }
double one_line(double bytes) { return 10e-6 + bytes / 5e9; }

std::vector<Sample> samples_of(double (*truth)(double), const Noise& noise, int num_sizes = 21) {
  std::vector<Sample> samples;
  NoisyClock clock(noise);
  for (int i = 0; i < num_sizes; ++i) {  // 1 KiB to 1 GiB
    const Probe probe{.family = ProbeFamily::Collective,
                      .num_ranks = 4,
                      .collective = CollectiveKind::AllReduce,
                      .scope = RankScope::All,
                      .group_ranks = 4,
                      .bytes = {std::int64_t(1024) << i}};
    samples.push_back(sample_of(probe, truth(double(probe.bytes.count)), clock));
  }
  return samples;
}

}  // namespace

TEST_CASE("one line stays one segment, its numbers within 2 %") {
  const auto curves = fit_collective_curves(samples_of(one_line, {.deviation = 0.01}));
  REQUIRE(curves.size() == 1);
  REQUIRE(curves[0].segments.size() == 1);
  CHECK(curves[0].segments[0].alpha.value == doctest::Approx(10e-6).epsilon(0.02));
  CHECK(curves[0].segments[0].bandwidth.value == doctest::Approx(5e9).epsilon(0.02));
  CHECK(curves[0].num_ranks == 4);
  CHECK(curves[0].kind == CollectiveKind::AllReduce);
}

TEST_CASE("two protocols make two segments that meet where they change") {
  const auto curves = fit_collective_curves(samples_of(two_protocols, {.outlier_share = 0}));
  REQUIRE(curves.size() == 1);
  REQUIRE(curves[0].segments.size() == 2);
  CHECK(curves[0].segments[1].from > Bytes{32768});
  CHECK(curves[0].segments[1].from <= Bytes{131072});
  CHECK(curves[0].segments[1].bandwidth.value == doctest::Approx(12e9).epsilon(0.02));
  CHECK(curves[0].quality.held_out_median < 0.1);
}

TEST_CASE("a few wrong measurements do not move a curve, whatever the seed") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto curves = fit_collective_curves(samples_of(two_protocols, {.seed = seed}));
    REQUIRE(curves.size() == 1);
    std::vector<double> errors;
    for (double size = 1500; size < 1e9; size *= 1.7)
      errors.push_back(std::abs(std::log(curves[0].time({std::int64_t(size)}).value / two_protocols(size))));
    std::sort(errors.begin(), errors.end());
    CAPTURE(seed);
    CHECK(errors[errors.size() / 2] < 0.03);
    Seconds before{};
    for (std::int64_t size = 512; size < std::int64_t(4) << 30; size = size * 5 / 4) {
      CHECK(curves[0].time({size}) >= 0.97 * before);  // but for noise that the correction follows
      before = curves[0].time({size});
    }
  }
}

TEST_CASE("two sizes make no curve, and a failed sample is none") {
  CHECK(fit_collective_curves(samples_of(one_line, {}, 2)).empty());
  auto samples = samples_of(one_line, {});
  for (Sample& s : samples) s.failure = "a rank died";
  CHECK(fit_collective_curves(samples).empty());
}
