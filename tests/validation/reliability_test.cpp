#include "validate/reliability.h"

#include <cmath>
#include <deque>

#include <doctest/doctest.h>

#include "validate/point.h"

using namespace gpuplan;

namespace {

constexpr int kSources = 5, kPointsEach = 39;

/// Measurements whose logarithms around the predictions are normal, with a tenth beyond 20 % above; the same in every
/// source.
struct MadeUpPeaks {
  MadeUpPeaks() {
    for (int s = 0; s < kSources; ++s)
      for (int i = 0; i < kPointsEach; ++i) {
        // Abramowitz and Stegun 26.2.23: quantiles of a normal distribution
        const double u = (i + 0.5) / kPointsEach, t = std::sqrt(-2 * std::log(std::min(u, 1 - u)));
        const double z = t - (2.515517 + 0.802853 * t + 0.010328 * t * t) /
                                 (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t);
        add(s, std::exp((u < 0.5 ? -z : z) * std::log(1.2) / 1.2816));
      }
  }
  void add(int source, double ratio) {
    Point& p = points.emplace_back(
        Point{.kind = PointKind::Memory, .id = "p", .source = std::to_string(source), .group = "g", .method = "full"});
    p.memory = {.metric = "nvidia_smi", .capacity_gib = 100, .ran_out = ratio > 1.1};
    PointResult r{.point = &p, .strategy = "single"};
    r.own = r.process = Comparison{"nvidia_smi", 90 * ratio, 90};
    r.own->tier = r.process->tier = MemoryTier::Process;
    const Bytes predicted{std::llround(90 * 0x1p30)}, card{std::llround(100 * 0x1p30)};
    r.tiers = MemoryTiers{.tensors = predicted,
                          .reserved = predicted,
                          .process = predicted,
                          .needed = predicted,
                          .capacity = card,
                          .usable = card};
    results.push_back(r);
  }
  std::deque<Point> points;
  std::vector<PointResult> results;
};

}  // namespace

TEST_CASE("reliability: probabilities of errors that are as assumed come true, in every source") {
  const MadeUpPeaks measured;
  const Reliability r = measure_reliability(measured.results, measured.results);
  REQUIRE(r.bands.size() == 6);
  for (const ReliabilityBand& band : r.bands) {
    CAPTURE(band.from);
    CHECK(band.num_sources == kSources);
    CHECK(band.stated >= band.from);
    CHECK(band.stated <= band.to);
    CHECK(std::abs(band.happened - band.stated) < 0.08);
    CHECK(band.least_of_a_source == doctest::Approx(band.most));  // all sources are alike
  }
  CHECK(r.num_runs + r.num_out_of_memory == kSources * kPointsEach);
  CHECK(r.num_out_of_memory > 0);
}

TEST_CASE("reliability: errors twice as large as others say are seen in the bands") {
  MadeUpPeaks measured;
  for (PointResult& r : measured.results)
    if (r.point->source == "0")
      for (auto* const c : {&r.own, &r.process}) (*c)->measured = 90 * std::pow((*c)->measured / 90, 3);
  const Reliability r = measure_reliability(measured.results, measured.results);
  CHECK(r.bands.front().most > r.bands.front().to);
  CHECK(r.bands.back().least_of_a_source < r.bands.back().from);
}

TEST_CASE("reliability: without measurements there are no bands") {
  const Reliability none = measure_reliability({}, {});
  CHECK(none.bands.empty());
  CHECK(none.num_runs + none.num_out_of_memory == 0);
}
