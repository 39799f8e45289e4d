#include <doctest/doctest.h>

#include "calibrate/synthetic_samples.h"
#include "fit/line.h"
#include "fit/make_profile.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

std::vector<Sample> copies(double (*truth)(double), const Noise& noise) {
  std::vector<Sample> samples;
  NoisyClock clock(noise);
  for (std::int64_t rows = 1; rows <= 65536; rows *= 2)
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Probe probe{.family = ProbeFamily::Memory,
                        .kernel = MemoryKernel::Copy,
                        .dtype = Dtype::BF16,
                        .rows = rows,
                        .width = 4096};
      samples.push_back(sample_of(probe, truth(double(probe.traffic().count)), clock));
    }
  return samples;
}

double plain(double bytes) { return 5e-6 + bytes / 3e12; }
/// 40 GB/s within a cache of 4 MB, 10 GB/s beyond.
double cached(double bytes) { return 1e-6 + std::min(bytes, 4e6) / 40e9 + std::max(0.0, bytes - 4e6) / 10e9; }

}  // namespace

TEST_CASE("a kernel's launch and bandwidth are recovered within 2 %") {
  const auto rates = fit_kernel_rates(copies(plain, {}), 1);
  REQUIRE(rates.size() == 1);
  CHECK(rates[0].kernel == "copy");
  CHECK(rates[0].dtype == Dtype::BF16);
  CHECK(rates[0].launch.value == doctest::Approx(5e-6).epsilon(0.02));
  CHECK(rates[0].bandwidth.value == doctest::Approx(3e12).epsilon(0.02));
  CHECK(fit_kernel_rates(copies(plain, {}), 2).empty());  // nobody measured two ranks
}

TEST_CASE("where small sizes run from caches the bandwidth is that of large ones") {
  const auto rates = fit_kernel_rates(copies(cached, {.deviation = 0.01}), 1);
  REQUIRE(rates.size() == 1);
  CHECK(rates[0].bandwidth.value == doctest::Approx(10e9).epsilon(0.05));
  CHECK(rates[0].least > Bytes{16384});
}

TEST_CASE("a line has three sizes, even when it fits none of them") {
  std::vector<LinePoint> points;
  for (int repeat = 0; repeat < 3; ++repeat)
    for (const auto& [work, time] : {std::pair(1e6, 1e-3), std::pair(2e6, 1e-3), std::pair(4e6, 8e-3)})
      points.push_back({.work = work, .time = time, .noise = 0.01});
  const auto line = fit_line(points);
  REQUIRE(line);
  CHECK(line->least == 1e6);
}

TEST_CASE("intervals of launch and bandwidth hold the truth in nine of ten calibrations") {
  int launches = 0, bandwidths = 0;
  constexpr int kRepeats = 50;
  for (int seed = 1; seed <= kRepeats; ++seed) {
    const auto rate = fit_kernel_rates(copies(plain, {.seed = std::uint64_t(seed)}), 1).at(0);
    launches += rate.launch.low <= 5e-6 && 5e-6 <= rate.launch.high;
    bandwidths += rate.bandwidth.low <= 3e12 && 3e12 <= rate.bandwidth.high;
  }
  CHECK(launches >= 45);
  CHECK(bandwidths >= 45);
}

TEST_CASE("attention has one rate per kernel, dtype and head size") {
  std::vector<Sample> samples;
  NoisyClock clock({});
  for (const std::int64_t head_size : {64, 128})
    for (std::int64_t tokens = 128; tokens <= 16384; tokens *= 2)
      for (const std::int64_t heads : {4, 32}) {
        Probe probe{.family = ProbeFamily::Attention, .shape = {.m = tokens, .k = head_size, .batch = heads}};
        samples.push_back(sample_of(probe, 8e-6 + probe.flops() / (head_size == 64 ? 200e12 : 400e12), clock));
      }
  const auto rates = fit_attention_rates(samples, 1);
  REQUIRE(rates.size() == 2);
  CHECK(rates[0].rate.value == doctest::Approx(200e12).epsilon(0.02));
  CHECK(rates[1].rate.value == doctest::Approx(400e12).epsilon(0.02));
}

TEST_CASE("numbers that stand alone carry name, unit, ranks and interval") {
  Sample launch{.probe = {.family = ProbeFamily::Dispatch}, .median = 3e-6, .low = 2.9e-6, .high = 3.2e-6};
  Sample context{.probe = {.family = ProbeFamily::Overhead, .overhead = OverheadKind::Context}};  // 0 B: a CPU has none
  Sample overlap{.probe = {.family = ProbeFamily::Overlap, .num_ranks = 2}, .median = 1e-3, .overlapped = 1.25};
  const auto fits = fit_scalars(std::vector{launch, context, overlap});
  REQUIRE(fits.size() == 3);
  CHECK(fits[0].name == "dispatch empty-kernel");
  CHECK(fits[0].value.low == 2.9e-6);
  CHECK(fits[0].value.high == 3.2e-6);
  CHECK(fits[1].unit == "B");
  CHECK(fits[1].value.value == 0);
  CHECK(fits[2].name == "overlap fp32");
  CHECK(fits[2].num_ranks == 2);
  CHECK(fits[2].value.value == 1.25);
}

TEST_CASE("copies give a bandwidth and a latency") {
  std::vector<Sample> samples;
  NoisyClock clock({});
  for (std::int64_t size = 4096; size <= std::int64_t(1) << 28; size *= 2) {
    const Probe probe{.family = ProbeFamily::Copy, .num_ranks = 4, .path = CopyPath::PinnedToDevice, .bytes = {size}};
    samples.push_back(sample_of(probe, 7e-6 + double(size) / 25e9, clock));
  }
  const auto fits = fit_scalars(samples);
  REQUIRE(fits.size() == 2);
  CHECK(fits[0].name == "copy pinned-to-device");
  CHECK(fits[0].value.value == doctest::Approx(25e9).epsilon(0.02));
  CHECK(fits[1].value.value == doctest::Approx(7e-6).epsilon(0.02));
  CHECK(fits[1].num_ranks == 4);
}
