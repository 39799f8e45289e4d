// The training kernels of the CPU device but attention: forward against the definition in double, backward against
// finite differences of that definition. tests/CMakeLists.txt runs this once per instruction set.
#include "training_fixture.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr std::int64_t kElementCounts[] = {0, 1, 15, 1000, 40001};  // the last: more than one thread

/// y = x weight / sqrt(mean(x^2) + epsilon), by row.
Doubles rms_norm(const Doubles& x, const Doubles& weight, double epsilon) {
  Doubles y = x;
  const std::size_t hidden = weight.size();
  for (std::size_t begin = 0; begin < x.size(); begin += hidden) {
    double squares = 0;
    for (std::size_t i = 0; i < hidden; ++i) squares += x[begin + i] * x[begin + i];
    for (std::size_t i = 0; i < hidden; ++i) y[begin + i] *= weight[i] / std::sqrt(squares / double(hidden) + epsilon);
  }
  return y;
}

Doubles swiglu(const Doubles& gate, const Doubles& up) {
  Doubles out = gate;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= up[i] / (1 + std::exp(-gate[i]));
  return out;
}

Doubles rotated(const Doubles& x, const RotaryTurn& r, const Doubles& cosine, const Doubles& sine) {
  Doubles y = x;
  const std::int64_t half = r.rotary / 2;
  for (std::int64_t row = 0; row < r.batch * r.seq * r.heads; ++row)
    for (std::int64_t i = 0; i < half; ++i) {
      const auto a = std::size_t(row * r.head_size + i), b = std::size_t(row * r.head_size + i + half);
      const auto angle = std::size_t(row / r.heads % r.seq * half + i);
      y[a] = x[a] * cosine[angle] - x[b] * sine[angle];
      y[b] = x[b] * cosine[angle] + x[a] * sine[angle];
    }
  return y;
}

}  // namespace

TEST_CASE("training: zero, add and add_scaled do what they say, also in place and between dtypes" * needs_cpu()) {
  Trainer cpu;
  for (const Dtype to : kTrained)
    for (const Dtype from : kTrained)
      for (const std::int64_t count : kElementCounts) {
        CAPTURE(to_string(to));
        CAPTURE(to_string(from));
        CAPTURE(count);
        const Array a = cpu.array(count, to, 1), b = cpu.array(count, from, 2), y = cpu.array(count, to, 3);
        const Doubles sum = sum_of(a.values(), b.values()), scaled = sum_of(a.values(), b.values(), -2.5);
        const Array in_place = cpu.copy_of(a), moved = cpu.copy_of(a);
        cpu.run(kernels::Add{y, a, b, count});
        cpu.run(kernels::Add{in_place, in_place, b, count});
        cpu.run(kernels::AddScaled{moved, b, -2.5F, count});
        cpu.stream->synchronise();
        CHECK(worst_error(y.values(), sum, 0.01) < rounding(to));
        CHECK(y.has_bits_of(in_place));
        CHECK(worst_error(moved.values(), scaled, 0.01) < rounding(to) + 2e-6);
        cpu.run(kernels::Zero{y.buffer.data(), y.buffer.size()});
        cpu.stream->synchronise();
        CHECK(y.values() == Doubles(std::size_t(count), 0.0));
      }
}

TEST_CASE("training: zero reaches the end of a long range and not further" * needs_cpu()) {
  Trainer cpu;
  const Array x = cpu.array(300'001, Dtype::F32, 1, 1, 2);
  cpu.run(kernels::Zero{x.buffer.data(), bytes_of(300'000, Dtype::F32)});
  cpu.stream->synchronise();
  const Doubles values = x.values();
  CHECK(std::all_of(values.begin(), values.end() - 1, [](double value) { return value == 0; }));
  CHECK(values.back() >= 1);
}

TEST_CASE("training: an embedding copies rows, and its backward adds up those of the same id" * needs_cpu()) {
  Trainer cpu;
  const std::int64_t vocab = 11, rows = 40;
  std::vector<std::int32_t> ids;
  for (std::int64_t r = 0; r < rows; ++r)
    ids.push_back(std::int32_t(r * r % vocab));  // squares mod 11: five ids come often, five never
  for (const Dtype dtype : kTrained)
    for (const Dtype other : kTrained)
      for (const std::int64_t hidden : {1, 33, 64, 500}) {
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(other));
        CAPTURE(hidden);
        const Array table = cpu.array(vocab * hidden, other, 1), y = cpu.array(rows * hidden, dtype, 2),
                    dy = cpu.array(rows * hidden, dtype, 3), gradient = cpu.array(vocab * hidden, Dtype::F32, 4);
        Doubles expected = gradient.values();
        const Doubles rows_of = table.values(), added = dy.values();
        Doubles copied;
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t i = 0; i < hidden; ++i) {
            const auto at = std::size_t(ids[std::size_t(r)] * hidden + i);
            expected[at] += added[std::size_t(r * hidden + i)];
            copied.push_back(rows_of[at]);
          }
        cpu.run(kernels::Embed{y, table, ids.data(), rows, hidden});
        cpu.run(kernels::EmbedBackward{gradient, dy, ids.data(), rows, hidden});
        cpu.stream->synchronise();
        CHECK(worst_error(y.values(), copied, 0.01) <= (dtype == other ? 0 : rounding(dtype)));
        CHECK(worst_error(gradient.values(), expected, 0.1) < 1e-5);

        // a table of the ids 4 to 14
        expected = gradient.values();
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t i = 0; i < hidden; ++i) {
            const std::int64_t at = ids[std::size_t(r)] - 4, to = r * hidden + i;
            copied[std::size_t(to)] = at < 0 ? 0 : rows_of[std::size_t(at * hidden + i)];
            if (at >= 0) expected[std::size_t(at * hidden + i)] += added[std::size_t(to)];
          }
        cpu.run(kernels::Embed{y, table, ids.data(), rows, hidden, 4, vocab});
        cpu.run(kernels::EmbedBackward{gradient, dy, ids.data(), rows, hidden, 4, vocab});
        cpu.stream->synchronise();
        CHECK(worst_error(y.values(), copied, 0.01) <= (dtype == other ? 0 : rounding(dtype)));
        CHECK(worst_error(gradient.values(), expected, 0.1) < 1e-5);
      }
}

TEST_CASE("training: a bias goes to every row, and its gradient is the column sums" * needs_cpu()) {
  Trainer cpu;
  for (const Dtype dtype : kTrained)
    for (const Dtype other : kTrained)
      for (const std::int64_t width : {1, 32, 47, 200}) {
        const std::int64_t rows = 300;
        const Array y = cpu.array(rows * width, dtype, 1), bias = cpu.array(width, other, 2),
                    dy = cpu.array(rows * width, dtype, 3), gradient = cpu.array(width, other, 4);
        Doubles shifted = y.values(), sums = gradient.values();
        const Doubles shift = bias.values(), added = dy.values();
        for (std::size_t i = 0; i < shifted.size(); ++i) {
          shifted[i] += shift[i % std::size_t(width)];
          sums[i % std::size_t(width)] += added[i];
        }
        cpu.run(kernels::AddBias{y, bias, rows, width});
        cpu.run(kernels::BiasBackward{gradient, dy, rows, width});
        cpu.stream->synchronise();
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(other));
        CAPTURE(width);
        CHECK(worst_error(y.values(), shifted, 0.01) < rounding(dtype));
        CHECK(worst_error(gradient.values(), sums, 1) < rounding(other) + 1e-5);  // sums of 300 numbers reach 20
      }
}

TEST_CASE("training: rms norm with a weight of either dtype equals its definition" * needs_cpu()) {
  Trainer cpu;
  for (const Dtype dtype : kTrained)
    for (const Dtype other : kTrained)
      for (const std::int64_t hidden : {1, 7, 256, 1000}) {
        const std::int64_t rows = 37;
        const Array x = cpu.array(rows * hidden, dtype, 1), weight = cpu.array(hidden, other, 2),
                    y = cpu.array(rows * hidden, dtype, 3);
        cpu.run(kernels::RmsNorm{y, x, weight, rows, hidden, 1e-5F});
        cpu.stream->synchronise();
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(other));
        CAPTURE(hidden);
        CHECK(worst_error(y.values(), rms_norm(x.values(), weight.values(), 1e-5), 0.01) < rounding(dtype) + 1e-5);
      }
}

TEST_CASE("training: gradients of rms norm are its finite differences; a residual gradient passes, in place or not" *
          needs_cpu()) {
  Trainer cpu;
  for (const Dtype dtype : kTrained)
    for (const Dtype other : kTrained)
      for (const std::int64_t hidden : {1, 7, 40}) {
        const std::int64_t rows = 19;
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(other));
        CAPTURE(hidden);
        const Array x = cpu.array(rows * hidden, dtype, 1), weight = cpu.array(hidden, other, 2),
                    dy = cpu.array(rows * hidden, dtype, 3), residual = cpu.array(rows * hidden, dtype, 4),
                    gradient = cpu.array(hidden, other, 5);
        const Doubles w = weight.values(), in = x.values(), up = dy.values(), before = gradient.values();
        const Doubles dx = differences([&](const Doubles& at) { return rms_norm(at, w, 1e-5); }, in, up);
        const Doubles dw =
            sum_of(before, differences([&](const Doubles& at) { return rms_norm(in, at, 1e-5); }, w, up));
        const Array alone = cpu.copy_of(x), with = cpu.copy_of(x), in_place = cpu.copy_of(residual),
                    untouched = cpu.copy_of(gradient);
        cpu.run(kernels::RmsNormBackward{alone, nullptr, gradient, dy, x, weight, rows, hidden, 1e-5F});
        cpu.run(kernels::RmsNormBackward{with, residual.buffer.data(), {}, dy, x, weight, rows, hidden, 1e-5F});
        cpu.run(kernels::RmsNormBackward{in_place, in_place.buffer.data(), {}, dy, x, weight, rows, hidden, 1e-5F});
        cpu.stream->synchronise();
        CHECK(worst_error(alone.values(), dx, 1) < rounding(dtype) + 1e-5);
        CHECK(worst_error(with.values(), sum_of(dx, residual.values()), 1) < rounding(dtype) + 1e-5);
        CHECK(in_place.has_bits_of(with));
        CHECK(worst_error(gradient.values(), dw, 1) < rounding(other) + 1e-5);
      }
}

TEST_CASE("training: rotation turns pairs by their angle, inverse turns back, the rest of a head passes" *
          needs_cpu()) {
  Trainer cpu;
  for (const Dtype dtype : kTrained)
    for (const auto& sizes : {std::pair<std::int64_t, std::int64_t>{2, 2}, {32, 32}, {20, 10}, {64, 16}}) {
      const std::int64_t head_size = sizes.first, rotary = sizes.second;
      RotaryTurn r{.batch = 2, .seq = 30, .heads = 3, .head_size = head_size, .rotary = rotary};
      const std::int64_t count = r.batch * r.seq * r.heads * head_size;
      const Array cosine = cpu.array(r.seq * rotary / 2, Dtype::F32, 1),
                  sine = cpu.array(r.seq * rotary / 2, Dtype::F32, 2);
      r.cosine = cosine.buffer.as<float>(), r.sine = sine.buffer.as<float>();
      const Array x = cpu.array(count, dtype, 3), y = cpu.array(count, dtype, 4), in_place = cpu.copy_of(x),
                  dx = cpu.array(count, dtype, 5);
      cpu.run(kernels::Rotate{y, x, r});
      cpu.run(kernels::Rotate{in_place, in_place, r});
      r.is_inverse = true;
      cpu.run(kernels::Rotate{dx, x, r});
      cpu.stream->synchronise();
      CAPTURE(to_string(dtype));
      CAPTURE(head_size);
      CAPTURE(rotary);
      const auto forward = [&](const Doubles& at) { return rotated(at, r, cosine.values(), sine.values()); };
      CHECK(worst_error(y.values(), forward(x.values()), 0.1) < rounding(dtype) + 1e-6);
      CHECK(in_place.has_bits_of(y));
      // Cosine and sine are independent random numbers here, so that the inverse is the transpose and nothing else.
      if (head_size > 20) continue;
      CHECK(worst_error(dx.values(), differences(forward, Doubles(std::size_t(count), 0.0), x.values()), 0.1) <
            rounding(dtype) + 1e-6);
    }
}

TEST_CASE("training: swiglu and its gradients equal the definition and its finite differences, in place or not" *
          needs_cpu()) {
  Trainer cpu;
  for (const Dtype dtype : kTrained)
    for (const std::int64_t count : {1, 15, 200}) {
      CAPTURE(to_string(dtype));
      CAPTURE(count);
      const Array gate = cpu.array(count, dtype, 1, -6, 6), up = cpu.array(count, dtype, 2),
                  dout = cpu.array(count, dtype, 3), out = cpu.copy_of(up), dgate = cpu.copy_of(up),
                  dup = cpu.copy_of(up);
      const Doubles g = gate.values(), u = up.values(), d = dout.values();
      const Doubles by_gate = differences([&](const Doubles& at) { return swiglu(at, u); }, g, d);
      const Doubles by_up = differences([&](const Doubles& at) { return swiglu(g, at); }, u, d);
      cpu.run(kernels::SwiGlu{out, gate, up, count});
      cpu.run(kernels::SwiGluBackward{dgate, dup, dout, gate, up, count});
      cpu.run(kernels::SwiGluBackward{gate, up, dout, gate, up, count});
      cpu.stream->synchronise();
      CHECK(worst_error(out.values(), swiglu(g, u), 0.01) < rounding(dtype) + 1e-5);
      CHECK(worst_error(dgate.values(), by_gate, 0.1) < rounding(dtype) + 1e-5);
      CHECK(worst_error(dup.values(), by_up, 0.1) < rounding(dtype) + 1e-5);
      CHECK(gate.has_bits_of(dgate));
      CHECK(up.has_bits_of(dup));
    }
}

TEST_CASE("training: gradients of swiglu are finite where exp overflows" * needs_cpu()) {
  Trainer cpu;
  const std::int64_t count = 1000;
  const Array gate = cpu.array(count, Dtype::F32, 1, -200, 200), up = cpu.array(count, Dtype::F32, 2),
              dout = cpu.array(count, Dtype::F32, 3);
  cpu.run(kernels::SwiGluBackward{gate, up, dout, gate, up, count});
  cpu.stream->synchronise();
  for (const Doubles& values : {gate.values(), up.values()})
    CHECK(std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); }));
}

TEST_CASE("training: sums and sums of squares are added to a double" * needs_cpu()) {
  Trainer cpu;
  for (const Dtype dtype : kTrained)
    for (const std::int64_t count : {0, 1, 1000, 40'001, 300'000}) {
      const Array x = cpu.array(count, dtype, 1, 0.5, 1), y = cpu.array(count, Dtype::F32, 2, 0.5, 1);
      double squares = 3, sum = 4, expected_squares = 3, expected_sum = 4;
      for (const double value : x.values()) expected_squares += value * value;
      for (const double value : y.values()) expected_sum += value;
      cpu.run(kernels::AddSquares{&squares, x, count});
      cpu.run(kernels::AddSum{&sum, y.buffer.as<float>(), count});
      cpu.stream->synchronise();
      CAPTURE(to_string(dtype));
      CAPTURE(count);
      CHECK(squares == doctest::Approx(expected_squares).epsilon(1e-6));
      CHECK(sum == doctest::Approx(expected_sum).epsilon(1e-6));
    }
}

TEST_CASE("training: AdamW makes the textbook step on weights and states of either dtype" * needs_cpu()) {
  Trainer cpu;
  const AdamW with{.learning_rate = 0.01F, .weight_decay = 0.1F, .step = 3};
  for (const Dtype weights : kTrained)
    for (const Dtype gradients : kTrained)
      for (const Dtype states : kTrained)
        for (const std::int64_t count : kElementCounts) {
          if (states == Dtype::BF16 && weights == Dtype::F32) continue;
          const Array w = cpu.array(count, weights, 1), g = cpu.array(count, gradients, 2),
                      m = cpu.array(count, states, 3), v = cpu.array(count, states, 4, 0, 1);
          Doubles weight = w.values(), mean = m.values(), square = v.values(), gradient = g.values();
          for (std::size_t i = 0; i < weight.size(); ++i) {
            gradient[i] *= 0.25;
            mean[i] = 0.9 * mean[i] + 0.1 * gradient[i];
            square[i] = 0.999 * square[i] + 0.001 * gradient[i] * gradient[i];
            weight[i] -= 0.01 * (0.1 * weight[i] + mean[i] / (1 - std::pow(0.9, 3)) /
                                                       (std::sqrt(square[i] / (1 - std::pow(0.999, 3))) + 1e-8));
          }
          cpu.run(kernels::AdamWUpdate{.weight = w,
                                       .gradient = g,
                                       .m = m,
                                       .v = v,
                                       .count = count,
                                       .step = adamw_step(with),
                                       .gradient_scale = 0.25F});
          cpu.stream->synchronise();
          CAPTURE(to_string(weights));
          CAPTURE(to_string(gradients));
          CAPTURE(to_string(states));
          CAPTURE(count);
          CHECK(worst_error(w.values(), weight, 1.0) < rounding(weights) + 1e-5);
          CHECK(worst_error(m.values(), mean, 1.0) < rounding(states) + 1e-6);
          CHECK(worst_error(v.values(), square, 1.0) < rounding(states) + 1e-6);
        }
}

TEST_CASE("training: sums have the same bits with any number of threads" * needs_cpu()) {
  Trainer one(1), three(3);
  const std::int64_t rows = 600, hidden = 300, vocab = 7;
  std::vector<std::int32_t> ids;
  for (std::int64_t r = 0; r < rows; ++r) ids.push_back(std::int32_t(r % vocab));
  const auto run = [&](Trainer& cpu) {
    const Array x = cpu.array(rows * hidden, Dtype::F32, 1), dy = cpu.array(rows * hidden, Dtype::F32, 2),
                w = cpu.array(hidden, Dtype::F32, 3), table = cpu.array(vocab * hidden, Dtype::F32, 4),
                result = cpu.array(2 * hidden, Dtype::F32, 5);
    double sums[2] = {};
    const Numbers bias{result.buffer.data(), Dtype::F32}, weight{result.buffer.as<float>() + hidden, Dtype::F32};
    cpu.run(kernels::AddSquares{&sums[0], x, rows * hidden});
    cpu.run(kernels::AddSum{&sums[1], x.buffer.as<float>(), rows * hidden});
    cpu.run(kernels::BiasBackward{bias, dy, rows, hidden});
    cpu.run(kernels::EmbedBackward{table, dy, ids.data(), rows, hidden});
    cpu.run(kernels::RmsNormBackward{dy, nullptr, weight, dy, x, w, rows, hidden, 1e-5F});
    cpu.stream->synchronise();
    Doubles all = result.values();
    for (const Doubles& more : {table.values(), dy.values(), Doubles{sums[0], sums[1]}})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  CHECK(run(one) == run(three));
}

TEST_CASE("training: mixed dtypes where one is asked for are an error at the next wait" * needs_cpu()) {
  Trainer cpu;
  const Array x = cpu.array(8, Dtype::F32, 1), y = cpu.array(8, Dtype::BF16, 2);
  cpu.run(kernels::SwiGluBackward{x, y, x, x, x, 8});
  CHECK_THROWS_AS(cpu.stream->synchronise(), BugError);
}
