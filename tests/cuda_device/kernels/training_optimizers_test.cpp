#include "cuda_device/kernels/training_bench.h"
#include "device/quantisation.h"

namespace gpuplan::test {
namespace {

constexpr AdamW kSettings{.learning_rate = 0.01F, .weight_decay = 0.1F, .step = 3};
constexpr DynamicMap kSigned = dynamic_map(true), kUnsigned = dynamic_map(false);

struct Moments {
  Doubles weight, m, v;
};

/// One textbook step (Loshchilov & Hutter 2019, algorithm 2) with kSettings and the gradient x 0.25.
Moments naive_step(Moments at, const Doubles& gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double g = 0.25 * gradient[i];
    at.m[i] = 0.9 * at.m[i] + 0.1 * g;
    at.v[i] = 0.999 * at.v[i] + 0.001 * g * g;
    const double m_hat = at.m[i] / (1 - std::pow(0.9, 3)), v_hat = at.v[i] / (1 - std::pow(0.999, 3));
    at.weight[i] -= 0.01 * (0.1 * at.weight[i] + m_hat / (std::sqrt(v_hat) + 1e-8));
  }
  return at;
}

// --- states of 8 bits
// -------------------------------------------------------------------------------------------------

/// A state on the device: codes, and an absmax for each 256 of them.
struct State {
  Tensor codes, absmax;
};

std::vector<std::uint8_t> codes_of(Bench& bench, const State& state) {
  bench.check_guard(state.codes);
  std::vector<std::uint8_t> codes(std::size_t(state.codes.count));
  bench.device.copy(codes.data(), state.codes.data(), Bytes{state.codes.count}, CopyKind::DeviceToHost, *bench.stream);
  bench.stream->synchronise();
  return codes;
}

Doubles decoded(Bench& bench, const State& state, const DynamicMap& map) {
  const auto codes = codes_of(bench, state);
  const Doubles absmax = bench.download(state.absmax);
  Doubles values;
  for (std::size_t i = 0; i < codes.size(); ++i) values.push_back(double(map.levels[codes[i]]) * absmax[i / 256]);
  return values;
}

/// Random codes and scales. `shift`: of the codes, in bytes.
State random_state(Bench& bench, std::int64_t count, std::uint64_t seed, std::int64_t shift) {
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < count; ++i) codes.push_back(std::uint8_t(uniform(seed, std::uint64_t(i), 0, 255.99F)));
  const State state{bench.empty(count, Dtype::U8, shift),
                    bench.random((count + 255) / 256, Dtype::F32, 0.25, 1, seed + 1)};
  bench.device.copy(state.codes.data(), codes.data(), Bytes{count}, CopyKind::HostToDevice, *bench.stream);
  bench.stream->synchronise();
  return state;
}

/// Each absmax is the largest magnitude of its block, and each code that of the level nearest to x / absmax: no other
/// is nearer by more than 1e-5 of x, at which the middle of two levels counts as either.
void check_nearest(Bench& bench, const State& state, const Doubles& values, const DynamicMap& map) {
  const auto codes = codes_of(bench, state);
  const Doubles absmax = bench.download(state.absmax);
  REQUIRE(values.size() == codes.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t begin = i / 256 * 256;
    double largest = 0;
    for (std::size_t j = begin; j < std::min(values.size(), begin + 256); ++j)
      largest = std::max(largest, std::abs(values[j]));
    CAPTURE(i);
    REQUIRE(absmax[i / 256] == doctest::Approx(largest).epsilon(1e-5));
    const double x = values[i] / largest;
    double least = 2;
    for (const float level : map.levels) least = std::min(least, std::abs(x - double(level)));
    REQUIRE(std::abs(x - double(map.levels[codes[i]])) <= least + 1e-5 * std::abs(x));
  }
}

}  // namespace

TEST_CASE("training: AdamW makes the textbook step on weights and states of either dtype") {
  TrainingBench bench;
  for (const Dtype weights : kTrained)
    for (const Dtype gradients : kTrained)
      for (const Dtype states : kTrained)
        for (const std::int64_t count : {0, 1, 255, 5003}) {
          if (states == Dtype::BF16 && weights == Dtype::F32) continue;
          CAPTURE(to_string(weights));
          CAPTURE(to_string(gradients));
          CAPTURE(to_string(states));
          CAPTURE(count);
          const Tensor w = bench.random(count, weights, -1, 1, 1),
                       g = bench.random(count, gradients, -1, 1, 2, count % 2),
                       m = bench.random(count, states, -1, 1, 3), v = bench.random(count, states, 0, 1, 4);
          const Moments expected =
              naive_step({bench.download(w), bench.download(m), bench.download(v)}, bench.download(g));
          bench.run(kernels::AdamWUpdate{.weight = all_of(w),
                                         .gradient = all_of(g),
                                         .m = all_of(m),
                                         .v = all_of(v),
                                         .count = count,
                                         .step = adamw_step(kSettings),
                                         .gradient_scale = 0.25F});
          check_close(bench.download(w), expected.weight, one_rounding(weights) + 5e-6, 0.1);
          check_close(bench.download(m), expected.m, one_rounding(states), 0.1);
          check_close(bench.download(v), expected.v, one_rounding(states), 0.1);
        }
}

TEST_CASE("training: 8-bit AdamW steps from the states' values, and keeps the nearest codes") {
  TrainingBench bench;
  for (const Dtype weights : kTrained)
    for (const Dtype gradients : kTrained)
      for (const std::int64_t count : {1, 255, 2048, 5003}) {
        CAPTURE(to_string(weights));
        CAPTURE(to_string(gradients));
        CAPTURE(count);
        const Tensor w = bench.random(count, weights, -1, 1, 1), g = bench.random(count, gradients, -1, 1, 2);
        const State m = random_state(bench, count, 3, 0), v = random_state(bench, count, 5, count == 5003 ? 1 : 0);
        const Moments before{bench.download(w), decoded(bench, m, kSigned), decoded(bench, v, kUnsigned)};
        const Moments expected = naive_step(before, bench.download(g));
        bench.run(kernels::AdamW8Update{.weight = all_of(w),
                                        .gradient = all_of(g),
                                        .m = bytes_in(m.codes),
                                        .v = bytes_in(v.codes),
                                        .m_absmax = floats_in(m.absmax),
                                        .v_absmax = floats_in(v.absmax),
                                        .count = count,
                                        .step = adamw_step(kSettings),
                                        .gradient_scale = 0.25F});
        check_close(bench.download(w), expected.weight, one_rounding(weights) + 1e-4, 0.1);  // v may be tiny
        check_nearest(bench, m, expected.m, kSigned);
        check_nearest(bench, v, expected.v, kUnsigned);
      }
}

TEST_CASE("training: 8-bit states find the nearest of all levels, down to the smallest decade and 0") {
  TrainingBench bench;
  constexpr std::int64_t kCount = 256 * 30;
  std::vector<float> gradients;  // magnitudes from 1 down to 1e-9 in each block, of both signs, and 0
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double exponent = i % 256 == 0 ? 0 : -9.0 * double(uniform(1, std::uint64_t(i), 0, 1));
    gradients.push_back(i % 97 == 5 ? 0.0F : float(std::pow(10.0, exponent)) * (i % 3 == 1 ? -4.0F : 4.0F));
  }
  const Tensor w = bench.upload_floats(std::vector<float>(kCount, 0.0F)), g = bench.upload_floats(gradients);
  const auto zeros = [&](std::uint8_t zero) {
    const std::vector<std::uint8_t> codes(kCount, zero);
    return State{bench.upload_bytes(codes.data(), kCount, Dtype::U8),
                 bench.upload_floats(std::vector<float>(kCount / 256, 0.0F))};
  };
  const State m = zeros(127), v = zeros(0);
  bench.run(kernels::AdamW8Update{.weight = all_of(w),
                                  .gradient = all_of(g),
                                  .m = bytes_in(m.codes),
                                  .v = bytes_in(v.codes),
                                  .m_absmax = floats_in(m.absmax),
                                  .v_absmax = floats_in(v.absmax),
                                  .count = kCount,
                                  .step = adamw_step(kSettings),
                                  .gradient_scale = 0.25F});
  const Doubles none(kCount);
  const Moments expected = naive_step({none, none, none}, bench.download(g));
  check_nearest(bench, m, expected.m, kSigned);
  check_nearest(bench, v, expected.v, kUnsigned);
}

TEST_CASE("training: a NaN among the gradients spoils its block of 8-bit states and no other") {
  TrainingBench bench;
  constexpr std::int64_t kCount = 768;
  std::vector<float> gradients(kCount, 0.5F);
  gradients[300] = NAN;
  const Tensor w = bench.random(kCount, Dtype::F32, -1, 1, 1), g = bench.upload_floats(gradients);
  const State m = random_state(bench, kCount, 3, 0), v = random_state(bench, kCount, 5, 0);
  bench.run(kernels::AdamW8Update{.weight = all_of(w),
                                  .gradient = all_of(g),
                                  .m = bytes_in(m.codes),
                                  .v = bytes_in(v.codes),
                                  .m_absmax = floats_in(m.absmax),
                                  .v_absmax = floats_in(v.absmax),
                                  .count = kCount,
                                  .step = adamw_step(kSettings),
                                  .gradient_scale = 1});
  for (const State* const state : {&m, &v}) {
    const Doubles absmax = bench.download(state->absmax);
    CHECK(std::isfinite(absmax[0]));
    CHECK(std::isnan(absmax[1]));
    CHECK(std::isfinite(absmax[2]));
  }
}

}  // namespace gpuplan::test
