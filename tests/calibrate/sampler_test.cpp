// Order statistics and the rule that stops a measurement, against known truth.
#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "calibrate/sampler.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

std::vector<double> one_to(int n) {
  std::vector<double> runs;
  for (int i = 1; i <= n; ++i) runs.push_back(i);
  return runs;
}

/// A thing that takes `truth`, with noise and outliers; remembers the batches it was timed in.
struct Thing {
  double truth = 1e-3, noise = 0, outliers = 0;
  std::vector<std::int64_t> batches{};
  std::mt19937_64 random{7};

  double once() {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> unit;
    const double time = truth * std::exp(noise * normal(random));
    return unit(random) < outliers ? time * (1.5 + 3.5 * unit(random)) : time;
  }
  SampledTime sample(const SamplingRule& rule) {
    return sample_time(rule, [&](std::int64_t num_calls) {
      batches.push_back(num_calls);
      double time = 0;
      for (std::int64_t i = 0; i < num_calls; ++i) time += once();
      return Seconds{time};
    });
  }
};

}  // namespace

TEST_CASE("the median is the middle run, or the mean of the two in the middle") {
  CHECK(summarise(std::vector{3.0, 1.0, 2.0}).median == 2);
  CHECK(summarise(std::vector{4.0, 1.0, 2.0, 3.0}).median == 2.5);
  CHECK(summarise(std::vector{5.0}).median == 5);
}

TEST_CASE("the interval of the median takes the binomial ranks") {
  // P(Binomial(n, 1/2) < r) <= 2.5 %: n = 6: 1/64 = 1.6 % at r = 1; n = 9: 10/512 = 2.0 % at r = 2; n = 20: 2.1 % at r
  // = 6; n = 100: 1.8 % at r = 40 (tables: 40 and 61).
  for (const auto& [n, rank] : {std::pair{6, 1}, {8, 1}, {9, 2}, {11, 2}, {12, 3}, {20, 6}, {100, 40}}) {
    const RunStatistics of = summarise(one_to(n));
    CAPTURE(n);
    CHECK(of.low == rank);
    CHECK(of.high == n + 1 - rank);
  }
}

TEST_CASE("intervals hold the true median in 95 % of samples or more") {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> skewed(0, 0.5);  // its median is 1
  int num_held = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> runs;
    for (int i = 0; i < 15; ++i) runs.push_back(skewed(random));
    const RunStatistics of = summarise(runs);
    num_held += of.low <= 1 && 1 <= of.high;
  }
  // 15 runs: ranks 4 and 12 hold it with 96.5 %; 3 sigma of 4000 trials are 0.9 %
  CHECK(num_held > 0.956 * kTrials);
  CHECK(num_held < 0.974 * kTrials);
}

TEST_CASE("outliers are counted and do not move the median") {
  std::vector<double> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(1 + 0.001 * (i % 5));
  runs.push_back(4);
  runs.push_back(0.2);
  const RunStatistics of = summarise(runs);
  CHECK(of.num_outliers == 2);
  CHECK(of.median == doctest::Approx(1.002).epsilon(0.001));
}

TEST_CASE("a steady thing stops after the least number of runs") {
  Thing thing;
  const SampledTime time = thing.sample({.least_runs = 7});
  CHECK(time.is_converged);
  CHECK(time.num_runs == 7);
  CHECK(time.statistics.median == doctest::Approx(1e-3));
}

TEST_CASE("fewer than six runs have no 95 % interval and never converge") {
  Thing thing;
  const SampledTime time = thing.sample({.least_runs = 2, .most_runs = 5});
  CHECK_FALSE(time.is_converged);
  CHECK(time.num_runs == 5);
}

TEST_CASE("noise is measured until the interval is as narrow as asked") {
  Thing thing{.noise = 0.05};
  const SampledTime time = thing.sample({.relative_interval = 0.02, .most_runs = 1000});
  CHECK(time.is_converged);
  CHECK(time.num_runs > 12);  // 1.96 x 1.25 x 5 % / sqrt(n) = 2 % at n = 38
  CHECK(time.num_runs < 120);
  CHECK(time.statistics.high - time.statistics.low <= 0.04 * time.statistics.median);
}

TEST_CASE("the cap on runs stops what never settles, and says so") {
  Thing thing{.noise = 1};
  const SampledTime time = thing.sample({.most_runs = 30, .most_time = 100.0_s});
  CHECK_FALSE(time.is_converged);
  CHECK(time.num_runs == 30);
}

TEST_CASE("the cap on time leaves slow things six runs within three times the cap, and one run always") {
  Thing slow{.truth = 0.3};
  CHECK(slow.sample({.most_time = 1.0_s}).num_runs == 6);  // 1.8 s
  Thing slower{.truth = 0.7};
  CHECK(slower.sample({.most_time = 1.0_s}).num_runs == 5);  // after 2.8 s there is time for one more
  Thing slowest{.truth = 30};
  const SampledTime time = slowest.sample({.most_time = 1.0_s});
  CHECK(time.num_runs == 1);
  CHECK_FALSE(time.is_converged);
  CHECK(time.statistics.median == doctest::Approx(30));
}

TEST_CASE("short calls are timed several at a time, figures are per call") {
  Thing thing{.truth = 1e-6};
  const SampledTime time = thing.sample({.least_batch = 200.0_us});
  CHECK(thing.batches.back() >= 200);
  CHECK(thing.batches.back() < 500);
  CHECK(time.statistics.median == doctest::Approx(1e-6));
}

TEST_CASE("a slow first call does not make batches small") {
  std::int64_t num_done = 0, batch = 0;
  sample_time({.num_warmups = 2, .least_batch = 200.0_us}, [&](std::int64_t num_calls) {
    batch = num_calls;
    return Seconds{num_done++ == 0 ? 0.05 : 1e-6 * double(num_calls)};
  });
  CHECK(batch >= 200);
}

TEST_CASE("a call that finds threads asleep whenever it is alone is not timed alone") {
  const SampledTime time = sample_time(
      {}, [](std::int64_t num_calls) { return Seconds{num_calls == 1 ? 520e-6 : 5e-6 * double(num_calls)}; });
  CHECK(time.statistics.median == doctest::Approx(5e-6));
  std::int64_t least = 100;
  sample_time({}, [&](std::int64_t num_calls) {
    least = num_calls;
    return Seconds{25e-3 * double(num_calls)};
  });
  CHECK(least == 1);
}

TEST_CASE("a clock that stands still ends the measurement") {
  const SampledTime time = sample_time({}, [](std::int64_t) { return Seconds{}; });
  CHECK(time.statistics.median == 0);
  CHECK(time.num_runs <= SamplingRule{}.most_runs);
}

TEST_CASE("the truth is found within 2 % under 5 % noise and 5 % outliers of up to five times the time") {
  std::vector<double> errors;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Thing thing{.noise = 0.05, .outliers = 0.05, .batches = {}, .random = std::mt19937_64(seed)};
    errors.push_back(std::abs(thing.sample({.most_runs = 400}).statistics.median / 1e-3 - 1));
  }
  // 95 % intervals of 2 % half width: two of forty may miss; outliers of one side move the median by 0.3 %
  CHECK(std::count_if(errors.begin(), errors.end(), [](double error) { return error > 0.02; }) <= 3);
  CHECK(*std::max_element(errors.begin(), errors.end()) < 0.05);
}

TEST_CASE("a quick calibration takes less time and is content with less") {
  const SamplingRule quick = sampling_rule(true), full = sampling_rule(false);
  CHECK(quick.most_time < full.most_time);
  CHECK(quick.relative_interval > full.relative_interval);
  CHECK(quick.least_runs >= SamplingRule::kLeastForInterval);
}
