#include <doctest/doctest.h>

#include <cstring>

#include "calibrate/synthetic_samples.h"
#include "fit/make_profile.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

/// 132 units, 128 x 256 tiles, 700 TFLOP/s, 4 TB/s, 4 us.
GemmSurface gpu_truth() {
  return {.type = GemmType::BF16,
          .layout = GemmLayout::Forward,
          .rate = {700e12},
          .bandwidth = {4e12},
          .launch = {4e-6},
          .m_half = {30},
          .n_half = {40},
          .k_half = {200},
          .wave_loss = {0.8},
          .exposed = {0.2},
          .k_depth = {500},
          .tile_m = 128,
          .tile_n = 256,
          .num_units = 132};
}

/// One thread: 200 GFLOP/s, packing, and rows that share cache sets.
GemmSurface cpu_truth() {
  return {.type = GemmType::F32,
          .layout = GemmLayout::InputGradient,
          .rate = {200e9},
          .bandwidth = {20e9},
          .launch = {1e-6},
          .m_half = {15},
          .n_half = {3},
          .k_half = {20},
          .wave_loss = {0.4},
          .exposed = {0.3},
          .depth_loss = {0.2},
          .k_depth = {500},
          .spill_loss = {0.2},
          .tail_loss = {0.05},
          .ragged_loss = {0.1},
          .stride_loss = {0.15},
          .tile_m = 32,
          .tile_n = 32};
}

/// Of the CPU's truth wide products alone: thin ones have surfaces of their own there.
std::vector<Sample> samples_of(const GemmSurface& truth, const Noise& noise) {
  std::vector<Sample> samples;
  NoisyClock clock(noise);
  const std::int64_t thin = truth.type == GemmType::F32 ? 72 : 16;
  for (const std::int64_t m : {std::max<std::int64_t>(64, thin), std::int64_t(256), std::int64_t(1000),
                               std::int64_t(2048), std::int64_t(8192)})
    for (const std::int64_t n :
         {thin, std::int64_t(384), std::int64_t(1376), std::int64_t(2048), std::int64_t(4096), std::int64_t(8192)})
      for (const std::int64_t k :
           {thin, std::int64_t(256), std::int64_t(1000), std::int64_t(2048), std::int64_t(8192)}) {
        const Probe probe{.family = ProbeFamily::Gemm, .type = truth.type, .layout = truth.layout, .shape = {m, n, k}};
        samples.push_back(sample_of(probe, truth.time(probe.shape).value, clock));
      }
  return samples;
}

/// Median of |ln(fitted / true)| over shapes that were not among the samples.
double error_against(const GemmSurface& truth, const GemmSurface& fitted) {
  std::vector<double> errors;
  for (const std::int64_t m : {128, 512, 1536, 4096})
    for (const std::int64_t n : {64, 768, 1536, 5632})
      for (const std::int64_t k : {64, 512, 1408, 4096})
        errors.push_back(std::abs(std::log(fitted.time({m, n, k}) / truth.time({m, n, k}))));
  std::nth_element(errors.begin(), errors.begin() + long(errors.size()) / 2, errors.end());
  return errors[errors.size() / 2];
}

GemmSurface fit_one(const GemmSurface& truth, const Noise& noise, DeviceKind kind) {
  const auto surfaces = fit_gemm_surfaces(samples_of(truth, noise), 1, {kind, truth.num_units});
  REQUIRE(surfaces.size() == 1);
  return surfaces[0];
}

}  // namespace

TEST_CASE("a GPU's surface is recovered under 3 % noise and 5 % outliers") {
  const GemmSurface truth = gpu_truth(), fitted = fit_one(truth, {.deviation = 0.03}, DeviceKind::Cuda);
  CHECK(fitted.rate.value == doctest::Approx(truth.rate.value).epsilon(0.02));
  CHECK(fitted.bandwidth.value == doctest::Approx(truth.bandwidth.value).epsilon(0.02));
  CHECK(fitted.tile_m == 128);
  CHECK(fitted.tile_n == 256);
  CHECK(error_against(truth, fitted) < 0.02);
  CHECK(fitted.quality.held_out_median < 0.03);
  CHECK(fitted.quality.num_outliers >= 4);  // 5 % of 150, some of them hardly off
  CHECK(fitted.range.contains({64, 16, 16}));
  CHECK_FALSE(fitted.range.contains({32, 16, 16}));
}

TEST_CASE("a CPU's surface is recovered under 3 % noise and 5 % outliers") {
  const GemmSurface truth = cpu_truth(), fitted = fit_one(truth, {.deviation = 0.03}, DeviceKind::Cpu);
  // The rate is an asymptote that caches keep even 8192 cubed from; what large products take is what counts.
  const GemmShape large{8192, 8192, 8192};
  CHECK(fitted.time(large).value == doctest::Approx(truth.time(large).value).epsilon(0.02));
  CHECK(error_against(truth, fitted) < 0.02);
  CHECK(fitted.stride_loss.value == doctest::Approx(truth.stride_loss.value).epsilon(0.25));
}

TEST_CASE("the interval of a rate holds the truth in nine of ten calibrations") {
  for (const auto& [truth, kind] :
       {std::pair{gpu_truth(), DeviceKind::Cuda}, std::pair{cpu_truth(), DeviceKind::Cpu}}) {
    int num_held = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      const GemmSurface fitted = fit_one(truth, {.seed = std::uint64_t(seed)}, kind);
      num_held += fitted.rate.low <= truth.rate.value && truth.rate.value <= fitted.rate.high;
      CHECK(fitted.rate.high / fitted.rate.low < 1.1);  // an interval that holds everything says nothing
    }
    CHECK(num_held >= kSeeds - 2);
  }
}

TEST_CASE("what samples do not determine stays harmless and has a wide interval") {
  // Every product is aligned: nothing is known of ragged rows.
  std::vector<Sample> samples = samples_of(gpu_truth(), {});
  std::erase_if(samples, [](const Sample& s) { return s.probe.shape.k == 1000; });
  const auto surfaces = fit_gemm_surfaces(samples, 1, {DeviceKind::Cuda, 132});
  REQUIRE(surfaces.size() == 1);
  CHECK(surfaces[0].tail_loss.value < 0.05);
  CHECK(surfaces[0].tail_loss.low == 0);
  CHECK(surfaces[0].tail_loss.high > 10 * surfaces[0].tail_loss.value);
}

TEST_CASE(
    "on a CPU thin products have surfaces of their own, where there are enough; on a GPU one surface holds for all") {
  std::vector<Sample> samples = samples_of(cpu_truth(), {});
  for (const std::int64_t n : {96, 384, 1376, 4096})
    for (const std::int64_t m : {128, 1000, 2048, 8192}) {
      const Probe probe{
          .family = ProbeFamily::Gemm, .type = GemmType::F32, .layout = GemmLayout::InputGradient, .shape = {m, n, 16}};
      NoisyClock clock({});
      samples.push_back(sample_of(probe, cpu_truth().time(probe.shape).value, clock));
    }
  const auto cpu = fit_gemm_surfaces(samples, 1, {DeviceKind::Cpu, 1});
  REQUIRE(cpu.size() == 2);
  CHECK(cpu[0].regime == GemmRegime::Wide);
  CHECK(cpu[1].regime == GemmRegime::ThinK);
  CHECK(cpu[1].range.most.k == 16);
  CHECK(fit_gemm_surfaces(samples, 1, {DeviceKind::Cuda, 132}).size() == 1);
  samples.pop_back();
  CHECK(fit_gemm_surfaces(samples, 1, {DeviceKind::Cpu, 1}).size() == 1);  // too few
}

TEST_CASE("too little gives no surface") {
  std::vector<Sample> samples = samples_of(cpu_truth(), {});
  const auto surfaces_of = [](std::span<const Sample> some) {
    return fit_gemm_surfaces(some, 1, {DeviceKind::Cpu, 1}).size();
  };
  CHECK(surfaces_of(std::span(samples).first(5)) == 0);
  CHECK(surfaces_of(std::vector<Sample>(40, samples[0])) == 0);  // one shape
  CHECK(surfaces_of(samples) == 1);
  for (Sample& s : samples) s.failure = "out of memory";
  CHECK(surfaces_of(samples) == 0);
}

TEST_CASE("the same samples in any order give the same bytes") {
  std::vector<Sample> samples = samples_of(cpu_truth(), {});
  const auto first = fit_gemm_surfaces(samples, 1, {DeviceKind::Cpu, 1});
  std::reverse(samples.begin(), samples.end());
  const auto second = fit_gemm_surfaces(samples, 1, {DeviceKind::Cpu, 1});
  for (const GemmParameter& parameter : kGemmParameters) {
    const Fitted a = first[0].*parameter.member, b = second[0].*parameter.member;
    CHECK(std::memcmp(&a, &b, sizeof a) == 0);
  }
  CHECK(first[0].quality.held_out_p90 == second[0].quality.held_out_p90);
}
