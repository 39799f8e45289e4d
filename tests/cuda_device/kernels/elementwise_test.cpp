#include "cuda_device/kernels/bench.h"
#include "device/quantisation.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {
constexpr std::int64_t kCount = 5003;  // neither whole vectors nor whole blocks of threads
}

TEST_CASE("random numbers are those of uniform(), aligned or not") {
  Bench bench;
  for (const std::int64_t shift : {0, 1}) {
    const Doubles measured = bench.download(bench.random(kCount, Dtype::F32, -2, 3, 17, shift));
    for (std::int64_t i = 0; i < kCount; ++i)
      REQUIRE(measured[std::size_t(i)] == double(uniform(17, std::uint64_t(i), -2, 3)));
  }
}

TEST_CASE("random numbers of narrow dtypes are the same ones, rounded") {
  Bench bench;
  const Doubles exact = bench.download(bench.random(kCount, Dtype::F32, -2, 3, 17));
  for (const Dtype dtype : {Dtype::BF16, Dtype::F16, Dtype::F8E4M3})
    check_close(bench.download(bench.random(kCount, dtype, -2, 3, 17)), exact, tolerance_of(dtype), 0.1);
}

TEST_CASE("casts round to nearest even, and to fp8 keep to its range") {
  Bench bench;
  // bf16 has 8 significant bits: of 1 + 2^-8 both neighbours are as near, and 1 is even; of 1 + 3 x 2^-8 it is 1 + 2^-6
  CHECK(bench.download(bench.upload({1 + 0.00390625, 1 + 0.01171875}, Dtype::BF16)) == Doubles{1, 1 + 0.015625});
  CHECK(bench.download(bench.upload({1 + 0.00048828125, 65504}, Dtype::F16)) == Doubles{1, 65504});
  // e4m3 has 4 significant bits and ends at 448
  CHECK(bench.download(bench.upload({1.0625, 1.1875, 500, -3}, Dtype::F8E4M3)) == Doubles{1, 1.25, 448, -3});
}

TEST_CASE("casts between all dtypes keep numbers that both have") {
  Bench bench;
  Doubles numbers;
  for (int i = 0; i < kCount; ++i) numbers.push_back(double(i % 31 - 15) / 2);
  constexpr Dtype kAll[] = {Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::F8E4M3};
  for (const Dtype from : kAll)
    for (const Dtype to : kAll)
      for (const std::int64_t shift : {0, 1}) {
        CAPTURE(to_string(from));
        CAPTURE(to_string(to));
        const Tensor source = bench.upload(numbers, from, shift), target = bench.empty(kCount, to);
        bench.run(kernels::Cast{{target.data(), to}, {source.data(), from}, kCount});
        CHECK(bench.download(target) == numbers);
      }
}

TEST_CASE("SwiGLU is silu(gate) x up") {
  Bench bench;
  for (const Dtype dtype : kFloats)
    for (const std::int64_t shift : {0, 1}) {
      const Tensor gate = bench.random(kCount, dtype, -30, 30, 1, shift),
                   up = bench.random(kCount, dtype, -2, 2, 2, shift);
      const Tensor out = bench.empty(kCount, dtype, shift);
      bench.run(kernels::SwiGlu{{out.data(), dtype}, {gate.data(), dtype}, {up.data(), dtype}, kCount});
      Doubles expected;
      const Doubles g = bench.download(gate), u = bench.download(up);
      for (std::size_t i = 0; i < g.size(); ++i) expected.push_back(g[i] / (1 + std::exp(-g[i])) * u[i]);
      check_close(bench.download(out), expected, tolerance_of(dtype), 0.1);
    }
}

TEST_CASE("AdamW moves weights as its definition says, over three steps") {
  Bench bench;
  for (const Dtype dtype : kFloats) {
    const Tensor weight = bench.random(kCount, Dtype::F32, -1, 1, 1), gradient = bench.random(kCount, dtype, -1, 1, 2);
    const Tensor m = bench.upload(Doubles(kCount), Dtype::F32), v = bench.upload(Doubles(kCount), Dtype::F32);
    Doubles w = bench.download(weight), first(kCount), second(kCount);
    const Doubles g = bench.download(gradient);
    AdamW with{.learning_rate = 0.01F, .weight_decay = 0.1F};
    for (with.step = 1; with.step <= 3; ++with.step) {
      bench.run(kernels::AdamWUpdate{{static_cast<float*>(weight.data()), Dtype::F32},
                                     {gradient.data(), dtype},
                                     {static_cast<float*>(m.data()), Dtype::F32},
                                     {static_cast<float*>(v.data()), Dtype::F32},
                                     kCount,
                                     adamw_step(with)});
      for (std::size_t i = 0; i < w.size(); ++i) {
        first[i] = 0.9 * first[i] + 0.1 * g[i];
        second[i] = 0.999 * second[i] + 0.001 * g[i] * g[i];
        const double m_hat = first[i] / (1 - std::pow(0.9, double(with.step)));
        const double v_hat = second[i] / (1 - std::pow(0.999, double(with.step)));
        w[i] -= 0.01 * 0.1 * w[i] + 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
    }
    check_close(bench.download(weight), w, 2e-5, 0.1);
    check_close(bench.download(m), first, 2e-5, 0.1);
    check_close(bench.download(v), second, 1e-4, 1e-3);
  }
}

TEST_CASE("NF4 weights are level x absmax, the first of a byte in its high half") {
  Bench bench;
  constexpr std::int64_t kWeights = 64 * 40 + 13;  // ends inside a block, a vector and a byte
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < (kWeights + 1) / 2; ++i) codes.push_back(std::uint8_t(i * 37 % 256));
  Doubles absmax;
  for (std::int64_t i = 0; i < 41; ++i) absmax.push_back(0.5 + double(i) / 16);
  const Tensor scales = bench.upload(absmax, Dtype::F32);
  const Tensor packed = bench.upload_bytes(codes.data(), std::int64_t(codes.size()), Dtype::U8);
  Doubles expected;
  for (std::size_t i = 0; i < std::size_t(kWeights); ++i) {
    const int code = i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
    expected.push_back(double(kNf4Levels[code]) * absmax[i / 64]);
  }
  for (const Dtype dtype : kFloats)
    for (const std::int64_t shift : {0, 1}) {
      const Tensor out = bench.empty(kWeights, dtype, shift);
      bench.run(kernels::Nf4Dequantise{.out = {out.data(), dtype},
                                       .codes = static_cast<const std::uint8_t*>(packed.data()),
                                       .absmax_scales = static_cast<const float*>(scales.data()),
                                       .count = kWeights});
      check_close(bench.download(out), expected, tolerance_of(dtype), 0);
    }
}
