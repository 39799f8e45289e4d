// Every kernel of the CPU device against its definition in double. tests/CMakeLists.txt runs this once per instruction
// set.
#include "cpu_fixture.h"
#include "device/quantisation.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr Dtype kStored[] = {Dtype::F32, Dtype::BF16, Dtype::F16};
constexpr std::int64_t kCounts[] = {1, 15, 64, 1000, 40001};  // the last: more than one thread

}  // namespace

TEST_CASE("random numbers are those of the recipe for any number of threads, inside their bounds, and spread evenly" *
          needs_cpu()) {
  Cpu one(1), two(2);
  const std::int64_t count = 100'003;
  const Buffer a = one.random(count, Dtype::F32, 7, -2, 3), b = two.random(count, Dtype::F32, 7, -2, 3);
  CHECK(std::memcmp(a.data(), b.data(), std::size_t(a.size().count)) == 0);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = a.as<float>()[i];
    REQUIRE(x == uniform(7, std::uint64_t(i), -2, 3));
    REQUIRE((x >= -2 && x < 3));
    sum += double(x), squares += double(x) * double(x);
  }
  // mean 0.5, variance 25 / 12; four standard errors of each: 4 sqrt(2.083 / 1e5) = 0.018, 4 x 1.86 / sqrt(1e5) = 0.024
  CHECK(std::abs(sum / double(count) - 0.5) < 0.018);
  CHECK(std::abs(squares / double(count) - sum / double(count) * (sum / double(count)) - 25.0 / 12) < 0.024);
  CHECK(doubles(one.random(8, Dtype::F32, 8, -2, 3), Dtype::F32) !=
        doubles(one.random(8, Dtype::F32, 7, -2, 3), Dtype::F32));
}

TEST_CASE("splitmix64 gives its published first numbers") {
  // Seed 1234567: the test vector of the reference implementation by Vigna (prng.di.unimi.it/splitmix64.c).
  CHECK(random_bits(1234567, 0) == 6457827717110365317U);
  CHECK(random_bits(1234567, 1) == 3203168211198807973U);
}

TEST_CASE("casts between all types round to nearest even" * needs_cpu()) {
  Cpu cpu;
  constexpr Dtype kAll[] = {Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::F8E4M3};
  for (const Dtype from : kAll)
    for (const Dtype to : kAll)
      for (const std::int64_t count : kCounts) {
        const Buffer source = cpu.random(count, from, 5, -100, 100), target = cpu.zeros(count, to);
        cpu.run(kernels::Cast{{target.data(), to}, {source.data(), from}, count});
        cpu.stream->synchronise();
        CAPTURE(to_string(from));
        CAPTURE(to_string(to));
        CAPTURE(count);
        CHECK(worst_error(doubles(target, to), doubles(source, from), 0.02) <= (from == to ? 0 : rounding(to)));
      }
}

TEST_CASE("rms norm divides each row by its root mean square" * needs_cpu()) {
  Cpu cpu;
  for (const Dtype dtype : kStored)
    for (const std::int64_t hidden : {1, 7, 64, 1000}) {
      const std::int64_t rows = 37;
      const Buffer x = cpu.random(rows * hidden, dtype, 1), w = cpu.random(hidden, dtype, 2),
                   y = cpu.zeros(rows * hidden, dtype);
      cpu.run(kernels::RmsNorm{{y.data(), dtype}, {x.data(), dtype}, {w.data(), dtype}, rows, hidden, 1e-5F});
      cpu.stream->synchronise();
      std::vector<double> expected = doubles(x, dtype);
      const std::vector<double> weight = doubles(w, dtype);
      for (std::int64_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (std::int64_t i = 0; i < hidden; ++i) squares += std::pow(expected[std::size_t(r * hidden + i)], 2);
        for (std::int64_t i = 0; i < hidden; ++i)
          expected[std::size_t(r * hidden + i)] *= weight[std::size_t(i)] / std::sqrt(squares / double(hidden) + 1e-5);
      }
      CAPTURE(to_string(dtype));
      CAPTURE(hidden);
      CHECK(worst_error(doubles(y, dtype), expected, 0.01) < rounding(dtype) + 1e-5);
    }
}

TEST_CASE("swiglu is silu(gate) times up, also where exp overflows" * needs_cpu()) {
  Cpu cpu;
  for (const Dtype dtype : kStored)
    for (const std::int64_t count : kCounts) {
      const Buffer gate = cpu.random(count, dtype, 1, -120, 120), up = cpu.random(count, dtype, 2),
                   out = cpu.zeros(count, dtype);
      cpu.run(kernels::SwiGlu{{out.data(), dtype}, {gate.data(), dtype}, {up.data(), dtype}, count});
      cpu.stream->synchronise();
      std::vector<double> expected = doubles(gate, dtype);
      const std::vector<double> u = doubles(up, dtype);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= u[i] / (1 + std::exp(-expected[i]));
      CAPTURE(to_string(dtype));
      CAPTURE(count);
      CHECK(worst_error(doubles(out, dtype), expected, 1e-3) < rounding(dtype) + 1e-5);
    }
}

TEST_CASE("cross-entropy gives the loss and, in place, its gradient; ignored rows give nothing" * needs_cpu()) {
  Cpu cpu;
  for (const Dtype dtype : kStored)
    for (const std::int64_t vocab : {2, 33, 5000}) {
      const std::int64_t rows = 9;
      const float scale = 0.5F;
      const Buffer logits = cpu.random(rows * vocab, dtype, 1, -20, 20), losses = cpu.zeros(rows, Dtype::F32);
      std::vector<std::int32_t> labels;
      for (std::int64_t r = 0; r < rows; ++r) labels.push_back(r == 4 ? -100 : std::int32_t((r * 7919) % vocab));
      std::vector<double> gradient = doubles(logits, dtype), loss(std::size_t(rows), 0.0);
      for (std::int64_t r = 0; r < rows; ++r) {
        double* const row = gradient.data() + r * vocab;
        double sum = 0;
        for (std::int64_t i = 0; i < vocab; ++i) sum += std::exp(row[i]);
        const std::int32_t label = labels[std::size_t(r)];
        if (label >= 0) loss[std::size_t(r)] = std::log(sum) - row[label];
        for (std::int64_t i = 0; i < vocab; ++i)
          row[i] = label < 0 ? 0 : double(scale) * (std::exp(row[i]) / sum - (i == label));
      }
      cpu.run(kernels::CrossEntropy{{logits.data(), dtype}, labels.data(), losses.as<float>(), rows, vocab, &scale});
      cpu.stream->synchronise();
      CAPTURE(to_string(dtype));
      CAPTURE(vocab);
      CHECK(worst_error(doubles(losses, Dtype::F32), loss, 1.0) < 1e-5);
      CHECK(worst_error(doubles(logits, dtype), gradient, 1e-3) < rounding(dtype) + 1e-4);
    }
}

TEST_CASE("rows times a factor each; a factor of 0 gives zeros of what is no number" * needs_cpu()) {
  Cpu cpu;
  const std::vector<float> factors{0.5F, 0, -3};
  for (const Dtype dtype : kStored)
    for (const std::int64_t width : {1, 33, 5000}) {
      CAPTURE(to_string(dtype));
      CAPTURE(width);
      const Buffer x = cpu.random(3 * width, dtype, 1, -20, 20);
      std::memset(x.as<char>() + width * size_of(dtype), 0xff, std::size_t(width * size_of(dtype)));  // NaN
      std::vector<double> expected = doubles(x, dtype);
      for (std::int64_t r = 0; r < 3; ++r)
        for (std::int64_t i = 0; i < width; ++i) {
          double& value = expected[std::size_t(r * width + i)];
          value = r == 1 ? 0 : value * double(factors[std::size_t(r)]);
        }
      cpu.run(kernels::ScaleRows{{x.data(), dtype}, factors.data(), 3, width});
      cpu.stream->synchronise();
      CHECK(worst_error(doubles(x, dtype), expected, 1e-3) < rounding(dtype) + 1e-6);
    }
}

TEST_CASE("cross-entropy over two parts of a vocabulary gives what the whole gives" * needs_cpu()) {
  Cpu cpu;
  const std::int64_t rows = 9, vocab = 66, part = vocab / 2;
  const float scale = 0.5F;
  for (const Dtype dtype : kStored) {
    CAPTURE(to_string(dtype));
    const Buffer whole = cpu.random(rows * vocab, dtype, 1, -20, 20), losses = cpu.zeros(rows, Dtype::F32);
    const std::array<Buffer, 2> parts{cpu.zeros(rows * part, dtype), cpu.zeros(rows * part, dtype)};
    const std::int64_t bytes = part * size_of(dtype);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t p = 0; p < 2; ++p)
        std::memcpy(parts[std::size_t(p)].as<char>() + r * bytes, whole.as<char>() + (2 * r + p) * bytes,
                    std::size_t(bytes));
    std::vector<std::int32_t> labels;
    for (std::int64_t r = 0; r < rows; ++r)
      labels.push_back(r == 4 ? -100 : std::int32_t(r == 5 ? vocab : r * 23 % vocab));
    cpu.run(kernels::CrossEntropy{{whole.data(), dtype}, labels.data(), losses.as<float>(), rows, vocab, &scale});

    const auto count = std::size_t(rows);
    std::vector<float> largest(count, -1e30F), right(count), sum(count), own(count);
    const auto exchange = [&](std::vector<float>& all, auto kernel_of, auto merge) {
      for (std::int64_t p = 0; p < 2; ++p) {
        cpu.run(kernel_of(ConstNumbers{parts[std::size_t(p)].data(), dtype}, p * part));
        cpu.stream->synchronise();
        for (std::size_t r = 0; r < all.size(); ++r) all[r] = merge(all[r], own[r]);
      }
    };
    const auto add = [](float a, float b) { return a + b; };
    exchange(
        largest,
        [&](ConstNumbers x, std::int64_t) {
          return kernels::LargestLogit{own.data(), x, rows, part};
        },
        [](float a, float b) { return std::max(a, b); });
    exchange(
        right,
        [&](ConstNumbers x, std::int64_t first) {
          return kernels::LabelLogit{own.data(), x, labels.data(), rows, part, first};
        },
        add);
    exchange(
        sum,
        [&](ConstNumbers x, std::int64_t) {
          return kernels::SumOfExponentials{own.data(), x, largest.data(), rows, part};
        },
        add);
    for (std::int64_t p = 0; p < 2; ++p) {
      const Buffer shared = cpu.zeros(rows, Dtype::F32);
      cpu.run(kernels::SharedCrossEntropy{.logits = {parts[std::size_t(p)].data(), dtype},
                                          .largest = largest.data(),
                                          .right = right.data(),
                                          .sum = sum.data(),
                                          .labels = labels.data(),
                                          .losses = shared.as<float>(),
                                          .rows = rows,
                                          .vocab = part,
                                          .first = p * part,
                                          .whole = vocab,
                                          .scale = &scale});
      cpu.stream->synchronise();
      for (std::int64_t r = 0; r < rows; ++r) {
        CAPTURE(r);
        const float expected = losses.as<float>()[r], got = shared.as<float>()[r];
        CHECK(std::isnan(got) == std::isnan(expected));
        if (r != 5) CHECK(got == doctest::Approx(expected).epsilon(1e-5));
      }
    }
    const std::vector<double> expected = doubles(whole, dtype);
    for (std::int64_t p = 0; p < 2; ++p) {
      const std::vector<double> got = doubles(parts[std::size_t(p)], dtype);
      std::vector<double> of_part;
      for (std::int64_t r = 0; r < rows; ++r)
        of_part.insert(of_part.end(), expected.begin() + r * vocab + p * part,
                       expected.begin() + r * vocab + (p + 1) * part);
      CHECK(worst_error(got, of_part, 1e-3) < rounding(dtype) + 1e-4);
    }
  }
}

TEST_CASE("cross-entropy of a NaN, and of a label outside the vocabulary, is NaN; rows beside it are as they were" *
          needs_cpu()) {
  Cpu cpu;
  const std::int64_t rows = 5, vocab = 40;
  const float scale = 1;
  for (const Dtype dtype : kStored) {
    const Buffer logits = cpu.random(rows * vocab, dtype, 1), losses = cpu.zeros(rows, Dtype::F32);
    const float nan = NAN;
    const Buffer one_nan = cpu.zeros(1, dtype);
    cpu.run(kernels::Cast{{one_nan.data(), dtype}, {&nan, Dtype::F32}, 1});
    cpu.stream->synchronise();
    std::memcpy(logits.as<char>() + (3 * vocab + 7) * size_of(dtype), one_nan.data(), std::size_t(size_of(dtype)));
    const std::int32_t labels[rows] = {1, -1, std::int32_t(vocab), 2, std::int32_t(vocab) - 1};
    cpu.run(kernels::CrossEntropy{{logits.data(), dtype}, labels, losses.as<float>(), rows, vocab, &scale});
    cpu.stream->synchronise();
    CAPTURE(to_string(dtype));
    for (std::int64_t r = 0; r < rows; ++r) CHECK(std::isnan(losses.as<float>()[r]) == (r >= 1 && r <= 3));
    const std::vector<double> gradient = doubles(logits, dtype);
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;  // of softmax - one-hot: 0; of softmax alone: 1
      for (std::int64_t i = 0; i < vocab; ++i) sum += gradient[std::size_t(r * vocab + i)];
      CHECK(std::isnan(sum) == (r == 3));
      if (r != 3) CHECK(sum == doctest::Approx(r == 1 || r == 2).epsilon(0.03));
    }
  }
}

TEST_CASE("AdamW makes the textbook step" * needs_cpu()) {
  Cpu cpu;
  const AdamW with{.learning_rate = 0.01F, .weight_decay = 0.1F, .step = 3};
  for (const Dtype dtype : kStored)
    for (const std::int64_t count : kCounts) {
      const Buffer w = cpu.random(count, Dtype::F32, 1), g = cpu.random(count, dtype, 2),
                   m = cpu.random(count, Dtype::F32, 3), v = cpu.random(count, Dtype::F32, 4, 0, 1);
      std::vector<double> weight = doubles(w, Dtype::F32), mean = doubles(m, Dtype::F32),
                          square = doubles(v, Dtype::F32);
      const std::vector<double> gradient = doubles(g, dtype);
      for (std::size_t i = 0; i < weight.size(); ++i) {
        mean[i] = 0.9 * mean[i] + 0.1 * gradient[i];
        square[i] = 0.999 * square[i] + 0.001 * gradient[i] * gradient[i];
        weight[i] -= 0.01 * (0.1 * weight[i] + mean[i] / (1 - std::pow(0.9, 3)) /
                                                   (std::sqrt(square[i] / (1 - std::pow(0.999, 3))) + 1e-8));
      }
      cpu.run(kernels::AdamWUpdate{{w.as<float>(), Dtype::F32},
                                   {g.data(), dtype},
                                   {m.as<float>(), Dtype::F32},
                                   {v.as<float>(), Dtype::F32},
                                   count,
                                   adamw_step(with)});
      cpu.stream->synchronise();
      CAPTURE(to_string(dtype));
      CAPTURE(count);
      CHECK(worst_error(doubles(w, Dtype::F32), weight, 1.0) < 1e-5);
      CHECK(worst_error(doubles(m, Dtype::F32), mean, 1.0) < 1e-6);
      CHECK(worst_error(doubles(v, Dtype::F32), square, 1.0) < 1e-6);
    }
}

TEST_CASE("NF4 codes become their level times the absmax of their block, the first code in the high half" *
          needs_cpu()) {
  Cpu cpu;
  for (const Dtype dtype : kStored)
    for (const std::int64_t count : kCounts) {
      std::vector<std::uint8_t> codes;
      for (std::int64_t i = 0; i < (count + 1) / 2; ++i)
        codes.push_back(std::uint8_t(random_bits(1, std::uint64_t(i))));
      const Buffer absmax = cpu.random((count + 63) / 64, Dtype::F32, 2, 0, 3), out = cpu.zeros(count, dtype);
      std::vector<double> expected;
      for (std::int64_t i = 0; i < count; ++i) {
        const int code = i % 2 == 0 ? codes[std::size_t(i / 2)] >> 4 : codes[std::size_t(i / 2)] & 15;
        expected.push_back(double(kNf4Levels[code]) * double(absmax.as<float>()[i / 64]));
      }
      cpu.run(kernels::Nf4Dequantise{
          .out = {out.data(), dtype}, .codes = codes.data(), .absmax_scales = absmax.as<float>(), .count = count});
      cpu.stream->synchronise();
      CAPTURE(to_string(dtype));
      CAPTURE(count);
      CHECK(worst_error(doubles(out, dtype), expected, 1e-4) <= rounding(dtype));
    }
}

TEST_CASE("copies of any size arrive whole, and nothing beside them changes" * needs_cpu()) {
  Cpu cpu;
  for (const std::int64_t size : {0, 1, 1000, 262144, 262145, 3 << 20}) {
    const Buffer from = cpu.random(size / 4 + 2, Dtype::F32, 1), to = cpu.zeros(size / 4 + 2, Dtype::F32);
    cpu.device->copy(to.as<char>() + 1, from.data(), {size}, CopyKind::DeviceToDevice, *cpu.stream);
    cpu.run(kernels::Empty{});
    cpu.stream->synchronise();
    CHECK(std::memcmp(to.as<char>() + 1, from.data(), std::size_t(size)) == 0);
    CHECK(to.as<char>()[0] == 0);
    CHECK(to.as<char>()[1 + size] == 0);
  }
}
