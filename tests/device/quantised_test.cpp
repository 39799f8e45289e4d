// 8-bit AdamW, and NF4 from weights and back.
#include "device/quantisation.h"
#include "training_fixture.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr DynamicMap kSigned = dynamic_map(true), kUnsigned = dynamic_map(false);

Doubles decoded(const Buffer& codes, const Array& absmax, const DynamicMap& map) {
  Doubles values;
  const Doubles scales = absmax.values();
  for (std::int64_t i = 0; i < codes.size().count; ++i)
    values.push_back(double(map.levels[codes.as<std::uint8_t>()[i]]) * scales[std::size_t(i / kDynamicBlock)]);
  return values;
}

/// The distance from x to the nearest level of the map.
double nearest(double x, const DynamicMap& map) {
  double least = INFINITY;
  for (const float level : map.levels) least = std::min(least, std::abs(x - double(level)));
  return least;
}

/// Whether every number became the nearest level times the largest magnitude of its block.
bool is_nearest(const Buffer& codes, const Array& absmax, const Doubles& values, const DynamicMap& map) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t block = i / std::size_t(kDynamicBlock), begin = block * std::size_t(kDynamicBlock);
    double largest = 0;
    for (std::size_t j = begin; j < values.size() && j < begin + std::size_t(kDynamicBlock); ++j)
      largest = std::max(largest, std::abs(values[j]));
    const double distance = std::abs(values[i] / largest - double(map.levels[codes.as<std::uint8_t>()[i]]));
    if (std::abs(absmax.values()[block] / largest - 1) > 1e-5 || distance > nearest(values[i] / largest, map) + 1e-5)
      return false;
  }
  return true;
}

Buffer random_codes(Trainer& cpu, std::int64_t count, std::uint64_t seed) {
  const Array random = cpu.array(count, Dtype::F32, seed, 0, 256);
  Buffer codes = cpu.device->allocate({count});
  for (std::int64_t i = 0; i < count; ++i) codes.as<std::uint8_t>()[i] = std::uint8_t(random.buffer.as<float>()[i]);
  return codes;
}

}  // namespace

TEST_CASE("the dynamic maps ascend, hold 0 and 1, and have the levels that their decades say") {
  for (const DynamicMap& map : {kSigned, kUnsigned}) {
    CHECK(std::adjacent_find(map.levels, map.levels + 256, std::greater_equal<>()) == map.levels + 256);
    CHECK(map.levels[255] == 1.0F);
  }
  // Signed: [0.1, 1] in 64 parts of 0.0140625; the last middle is 1 - 0.00703125, the lowest decade's only one 0.55e-6.
  CHECK(kSigned.levels[127] == 0);
  CHECK(kSigned.levels[254] == doctest::Approx(0.99296875).epsilon(1e-7));
  CHECK(kSigned.levels[0] == -kSigned.levels[254]);
  CHECK(kSigned.levels[253] == doctest::Approx(0.97890625).epsilon(1e-7));
  CHECK(kSigned.levels[128] == doctest::Approx(0.55e-6).epsilon(1e-6));
  CHECK(kSigned.levels[129] == doctest::Approx(0.325e-5).epsilon(1e-6));
  // Unsigned: 128 parts of 0.00703125; two in the lowest decade.
  CHECK(kUnsigned.levels[0] == 0);
  CHECK(kUnsigned.levels[254] == doctest::Approx(0.996484375).epsilon(1e-7));
  CHECK(kUnsigned.levels[1] == doctest::Approx(0.325e-6).epsilon(1e-6));
  CHECK(kUnsigned.levels[2] == doctest::Approx(0.775e-6).epsilon(1e-6));
}

TEST_CASE("training: 8-bit AdamW steps on decoded states and keeps the nearest codes of new ones" * needs_cpu()) {
  Trainer cpu;
  const AdamW with{.learning_rate = 0.01F, .weight_decay = 0.1F, .step = 3};
  for (const Dtype weights : kTrained)
    for (const Dtype gradients : kTrained)
      for (const std::int64_t count : {1, 255, 256, 1000, 40001}) {
        const std::int64_t blocks = ceil_div(count, kDynamicBlock);
        const Array w = cpu.array(count, weights, 1), g = cpu.array(count, gradients, 2),
                    m_absmax = cpu.array(blocks, Dtype::F32, 3, 0.5, 1),
                    v_absmax = cpu.array(blocks, Dtype::F32, 4, 0.5, 1);
        const Buffer m = random_codes(cpu, count, 5), v = random_codes(cpu, count, 6);
        Doubles weight = w.values(), gradient = g.values(), mean = decoded(m, m_absmax, kSigned),
                square = decoded(v, v_absmax, kUnsigned);
        for (std::size_t i = 0; i < weight.size(); ++i) {
          gradient[i] *= 0.25;
          mean[i] = 0.9 * mean[i] + 0.1 * gradient[i];
          square[i] = 0.999 * square[i] + 0.001 * gradient[i] * gradient[i];
          weight[i] -= 0.01 * (0.1 * weight[i] + mean[i] / (1 - std::pow(0.9, 3)) /
                                                     (std::sqrt(square[i] / (1 - std::pow(0.999, 3))) + 1e-8));
        }
        cpu.run(kernels::AdamW8Update{.weight = w,
                                      .gradient = g,
                                      .m = m.as<std::uint8_t>(),
                                      .v = v.as<std::uint8_t>(),
                                      .m_absmax = m_absmax.buffer.as<float>(),
                                      .v_absmax = v_absmax.buffer.as<float>(),
                                      .count = count,
                                      .step = adamw_step(with),
                                      .gradient_scale = 0.25F});
        cpu.stream->synchronise();
        CAPTURE(to_string(weights));
        CAPTURE(to_string(gradients));
        CAPTURE(count);
        CHECK(worst_error(w.values(), weight, 1.0) < rounding(weights) + 1e-4);  // steps reach 10 where v is small
        if (count > 1000) continue;
        CHECK(is_nearest(m, m_absmax, mean, kSigned));
        CHECK(is_nearest(v, v_absmax, square, kUnsigned));
      }
}

TEST_CASE("training: 8-bit states of nothing stay nothing, and tiny ones beside a large one become the nearest level" *
          needs_cpu()) {
  Trainer cpu;
  const std::int64_t count = 512;
  const Array w = cpu.array(count, Dtype::F32, 1), g = cpu.array(count, Dtype::F32, 2, 0, 1e-9F),
              absmax{cpu.zeros(4, Dtype::F32), Dtype::F32};
  // Block 0 has gradients of 0. In block 1 magnitudes run from 1 down to 1e-8, of both signs.
  for (std::int64_t i = 0; i < count; ++i)
    g.buffer.as<float>()[i] = i < 256 ? 0.0F : float(std::pow(10, -double(i - 256) / 32) * (i % 3 == 0 ? -1 : 1));
  const Buffer codes = cpu.device->allocate({2 * count});
  std::memset(codes.data(), 127, std::size_t(count));            // the zero of the signed map
  std::memset(codes.as<char>() + count, 0, std::size_t(count));  // and of the unsigned
  const AdamW with{.beta1 = 0, .beta2 = 0};                      // m = g, v = g^2
  cpu.run(kernels::AdamW8Update{.weight = w,
                                .gradient = g,
                                .m = codes.as<std::uint8_t>(),
                                .v = codes.as<std::uint8_t>() + count,
                                .m_absmax = absmax.buffer.as<float>(),
                                .v_absmax = absmax.buffer.as<float>() + 2,
                                .count = count,
                                .step = adamw_step(with),
                                .gradient_scale = 1});
  cpu.stream->synchronise();
  const Doubles scales = absmax.values();
  CHECK(scales[0] == 0);
  CHECK(scales[2] == 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = double(g.buffer.as<float>()[i]) / (i < 256 ? 1 : scales[1]);
    const double m = double(kSigned.levels[codes.as<std::uint8_t>()[i]]),
                 v = double(kUnsigned.levels[codes.as<std::uint8_t>()[count + i]]);
    CAPTURE(i);
    CAPTURE(x);
    CHECK(std::abs(m - x) <= nearest(x, kSigned) * (1 + 1e-6) + 1e-12);
    CHECK(std::abs(v - x * x) <= nearest(x * x, kUnsigned) * (1 + 1e-6) + 1e-12);
  }
}

TEST_CASE("NF4 codes are the nearest levels, the first in the high half, the lower of two as near") {
  std::vector<float> weights{1.0F, 0.03979014977812767F, std::nextafter(0.03979014977812767F, 1.0F),
                             -0.8480964004993439F, -0.5F};
  const Nf4Weights exact = nf4_quantise(weights);
  CHECK(exact.absmax == std::vector<float>{1.0F});
  // -0.8481 lies just on the middle of -1 and -0.6962; -0.5 is nearest to -0.5251, code 2.
  CHECK(exact.codes == std::vector<std::uint8_t>{0xf7, 0x80, 0x20});

  weights.clear();
  for (std::uint64_t i = 0; i < 1000; ++i)
    weights.push_back(uniform(1, i, -3, 3) * (i < 640 && i >= 576 ? 0.0F : 1.0F));
  const Nf4Weights many = nf4_quantise(weights);
  REQUIRE(many.codes.size() == 500);
  REQUIRE(many.absmax.size() == 16);  // 1000 / 64, rounded up
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const int code = i % 2 ? many.codes[i / 2] & 15 : many.codes[i / 2] >> 4;
    const float absmax = many.absmax[i / 64];
    double least = INFINITY;
    for (const float level : kNf4Levels) least = std::min(least, std::abs(double(level * absmax) - double(weights[i])));
    CHECK(std::abs(double(kNf4Levels[code] * absmax) - double(weights[i])) <= least + 1e-6);
  }
  CHECK(many.absmax[9] == 0);  // the block of zeros
  CHECK(nf4_quantise({}).codes.empty());
}

TEST_CASE("absmax of NF4 is quantised around its mean to the nearest dynamic level") {
  std::vector<float> absmax;
  for (std::uint64_t i = 0; i < 600; ++i) absmax.push_back(uniform(2, i, 0.5, 2));
  const Nf4Absmax result = nf4_quantise_absmax(absmax);
  CHECK(result.offset == doctest::Approx(1.25).epsilon(0.05));  // 4 standard errors: 4 x 1.5 / sqrt(12 x 600) = 0.07
  REQUIRE(result.scales.size() == 3);
  for (std::size_t i = 0; i < absmax.size(); ++i) {
    const double scale = double(result.scales[i / 256]), x = double(absmax[i] - result.offset) / scale;
    CHECK(std::abs(double(kSigned.levels[result.codes[i]]) - x) <= nearest(x, kSigned) + 1e-6);
  }
  CHECK(nf4_quantise_absmax(std::vector<float>(5, 0.75F)).offset == 0.75F);  // alike: all of it is in the offset
  CHECK(nf4_quantise_absmax({}).codes.empty());
}

TEST_CASE("training: NF4 weights come back from codes, with absmax as it is or quantised" * needs_cpu()) {
  Trainer cpu;
  for (const Dtype dtype : kTrained)
    for (const std::int64_t count : {1, 63, 1000, 70'001}) {
      std::vector<float> weights;
      for (std::int64_t i = 0; i < count; ++i) weights.push_back(uniform(3, std::uint64_t(i), -1, 1));
      const Nf4Weights quantised = nf4_quantise(weights);
      const Nf4Absmax twice = nf4_quantise_absmax(quantised.absmax);
      Doubles once_back, twice_back;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const int code = i % 2 ? quantised.codes[i / 2] & 15 : quantised.codes[i / 2] >> 4;
        once_back.push_back(double(kNf4Levels[code]) * double(quantised.absmax[i / 64]));
        twice_back.push_back(
            double(kNf4Levels[code]) *
            (double(twice.offset) + double(kSigned.levels[twice.codes[i / 64]]) * double(twice.scales[i / 64 / 256])));
      }
      const Array once{cpu.zeros(count, dtype), dtype}, both{cpu.zeros(count, dtype), dtype};
      cpu.run(kernels::Nf4Dequantise{once, quantised.codes.data(), nullptr, quantised.absmax.data(), 0, count});
      cpu.run(kernels::Nf4Dequantise{both, quantised.codes.data(), twice.codes.data(), twice.scales.data(),
                                     twice.offset, count});
      cpu.stream->synchronise();
      CAPTURE(to_string(dtype));
      CAPTURE(count);
      CHECK(worst_error(once.values(), once_back, 0.01) < rounding(dtype) + 1e-6);
      CHECK(worst_error(both.values(), twice_back, 0.01) < rounding(dtype) + 1e-6);
      // A level of absmax is off by up to 0.7% of the blocks' spread (half the distance of levels at the top).
      CHECK(worst_error(both.values(), once.values(), 1) < 0.01);
    }
}
