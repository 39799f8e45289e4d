#include "base/error.h"
#include "cuda_device/kernels/training_bench.h"

namespace gpuplan::test {
namespace {

constexpr std::int64_t kCounts[] = {0, 1, 31, 5003};  // neither whole vectors nor whole blocks of threads

double silu(double x) { return x / (1 + std::exp(-x)); }

/// Pairs (i, i + rotary / 2) of each head of x [batch, seq, heads, head_size], turned.
Doubles naive_rotation(const Doubles& x, const RotaryTurn& r, const Doubles& cosine, const Doubles& sine) {
  Doubles y = x;
  const std::int64_t half = r.rotary / 2;
  const double sign = r.is_inverse ? -1 : 1;
  for (std::int64_t head = 0; head < r.batch * r.seq * r.heads; ++head)
    for (std::int64_t i = 0; i < half; ++i) {
      const auto a = std::size_t(head * r.head_size + i), b = a + std::size_t(half);
      const auto angle = std::size_t(head / r.heads % r.seq * half + i);
      y[a] = x[a] * cosine[angle] - sign * x[b] * sine[angle];
      y[b] = x[b] * cosine[angle] + sign * x[a] * sine[angle];
    }
  return y;
}

}  // namespace

TEST_CASE("training: zero reaches the last byte and not further") {
  TrainingBench bench;
  const std::vector<std::uint8_t> ones(1003, 1);
  const Tensor bytes = bench.upload_bytes(ones.data(), 1003, Dtype::U8);
  bench.run(kernels::Zero{bytes.data(), Bytes{0}});
  CHECK(bench.bits(bytes)[0] == 1);
  bench.run(kernels::Zero{bytes.data(), Bytes{1002}});
  const auto after = bench.bits(bytes);
  CHECK(std::all_of(after.begin(), after.begin() + 1002, [](std::uint8_t byte) { return byte == 0; }));
  CHECK(after[1002] == 1);
}

TEST_CASE("training: sums of numbers of any dtypes are rounded once; y may be a or b") {
  TrainingBench bench;
  for (const Dtype to : kTrained)
    for (const Dtype left : kTrained)
      for (const Dtype right : kTrained)
        for (const std::int64_t count : kCounts) {
          CAPTURE(to_string(to));
          CAPTURE(to_string(left));
          CAPTURE(to_string(right));
          CAPTURE(count);
          const std::int64_t shift = count % 3;
          const Tensor a = bench.random(count, left, -1, 1, 1, shift), b = bench.random(count, right, -1, 1, 2, shift);
          const Tensor y = bench.empty(count, to, shift), on_a = bench.copy_of(a), on_b = bench.copy_of(b);
          const Doubles expected = sum_of(bench.download(a), bench.download(b));
          bench.run(kernels::Add{all_of(y), all_of(a), all_of(b), count});
          bench.run(kernels::Add{all_of(on_a), all_of(on_a), all_of(b), count});
          bench.run(kernels::Add{all_of(on_b), all_of(a), all_of(on_b), count});
          check_close(bench.download(y), expected, one_rounding(to), 0.01);
          check_close(bench.download(on_a), expected, one_rounding(left), 0.01);
          check_close(bench.download(on_b), expected, one_rounding(right), 0.01);
        }
}

TEST_CASE("training: add_scaled adds a multiple, rounded once, also of y itself") {
  TrainingBench bench;
  for (const Dtype to : kTrained)
    for (const Dtype from : kTrained)
      for (const std::int64_t count : kCounts) {
        CAPTURE(to_string(to));
        CAPTURE(to_string(from));
        CAPTURE(count);
        const Tensor y = bench.random(count, to, -1, 1, 1), x = bench.random(count, from, -1, 1, 2),
                     decayed = bench.copy_of(y);
        const Doubles before = bench.download(y), expected = sum_of(before, bench.download(x), -2.5);
        bench.run(kernels::AddScaled{all_of(y), all_of(x), -2.5F, count});
        bench.run(kernels::AddScaled{all_of(decayed), all_of(decayed), -0.125F, count});
        check_close(bench.download(y), expected, one_rounding(to), 0.1);
        check_close(bench.download(decayed), sum_of(before, before, -0.125), one_rounding(to), 0.01);
      }
}

TEST_CASE("training: a bias of either dtype goes to every row") {
  TrainingBench bench;
  constexpr std::int64_t kRows = 3;
  for (const Dtype dtype : kTrained)
    for (const Dtype other : kTrained)
      for (const std::int64_t width : {1, 47, 64, 2600}) {
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(other));
        CAPTURE(width);
        const Tensor y = bench.random(kRows * width, dtype, -1, 1, 1), bias = bench.random(width, other, -1, 1, 2);
        Doubles expected = bench.download(y);
        const Doubles shift = bench.download(bias);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += shift[i % shift.size()];
        bench.run(kernels::AddBias{all_of(y), all_of(bias), kRows, width});
        check_close(bench.download(y), expected, one_rounding(dtype), 0.01);
      }
}

TEST_CASE("training: SwiGLU and its gradients are the definition and its derivatives, in place or not") {
  TrainingBench bench;
  for (const Dtype dtype : kTrained)
    for (const std::int64_t count : kCounts) {
      CAPTURE(to_string(dtype));
      CAPTURE(count);
      const std::int64_t shift = count % 3;
      const Tensor gate = bench.random(count, dtype, -9, 9, 1, shift), up = bench.random(count, dtype, -1, 1, 2, shift),
                   dout = bench.random(count, dtype, -1, 1, 3, shift), out = bench.empty(count, dtype, shift),
                   dgate = bench.empty(count, dtype, shift), dup = bench.empty(count, dtype, shift);
      const Doubles g = bench.download(gate), u = bench.download(up), d = bench.download(dout);
      Doubles forward, by_gate, by_up;
      for (std::size_t i = 0; i < g.size(); ++i) {
        forward.push_back(silu(g[i]) * u[i]);
        by_gate.push_back(d[i] * u[i] * derivative(silu, g[i]));
        by_up.push_back(d[i] * silu(g[i]));
      }
      bench.run(kernels::SwiGlu{all_of(out), all_of(gate), all_of(up), count});
      bench.run(kernels::SwiGluBackward{all_of(dgate), all_of(dup), all_of(dout), all_of(gate), all_of(up), count});
      bench.run(kernels::SwiGluBackward{all_of(gate), all_of(up), all_of(dout), all_of(gate), all_of(up), count});
      const double tolerance = one_rounding(dtype) + 5e-6;  // an exponential of 9 is exact to 1e-6
      check_close(bench.download(out), forward, tolerance, 0.1);
      check_close(bench.download(dgate), by_gate, tolerance, 0.1);
      check_close(bench.download(dup), by_up, tolerance, 0.1);
      CHECK(bench.bits(gate) == bench.bits(dgate));
      CHECK(bench.bits(up) == bench.bits(dup));
    }
}

TEST_CASE("training: gradients of SwiGLU are finite where exp overflows") {
  TrainingBench bench;
  const Tensor gate = bench.upload({-200, -90, 90, 200}, Dtype::F32), up = bench.upload({2, 2, 2, 2}, Dtype::F32),
               dout = bench.upload({3, 3, 3, 3}, Dtype::F32);
  bench.run(kernels::SwiGluBackward{all_of(gate), all_of(up), all_of(dout), all_of(gate), all_of(up), 4});
  check_close(bench.download(gate), {0, 0, 6, 6}, 1e-6, 1);
  check_close(bench.download(up), {0, 0, 270, 600}, 1e-6, 1);
}

TEST_CASE("training: rotation turns pairs by their angle, inverse turns back, the rest of a head passes") {
  TrainingBench bench;
  for (const Dtype dtype : kTrained)
    for (const auto& [head_size, rotary] :
         {std::pair<std::int64_t, std::int64_t>{2, 2}, {20, 10}, {20, 16}, {64, 16}, {80, 32}, {128, 128}})
      for (const bool is_inverse : {false, true}) {
        CAPTURE(to_string(dtype));
        CAPTURE(head_size);
        CAPTURE(rotary);
        CAPTURE(is_inverse);
        RotaryTurn r{
            .batch = 2, .seq = 5, .heads = 3, .head_size = head_size, .rotary = rotary, .is_inverse = is_inverse};
        if (head_size == 128) r.heads = 40;  // more pairs than a block has threads for at once
        const std::int64_t count = r.batch * r.seq * r.heads * head_size, shift = head_size == 80 ? 1 : 0;
        // Cosine and sine are independent random numbers, so that neither can stand for the other.
        const Tensor cosine = bench.random(r.seq * rotary / 2, Dtype::F32, -1, 1, 1),
                     sine = bench.random(r.seq * rotary / 2, Dtype::F32, -1, 1, 2);
        r.cosine = floats_in(cosine), r.sine = floats_in(sine);
        const Tensor x = bench.random(count, dtype, -1, 1, 3, shift), y = bench.empty(count, dtype, shift),
                     in_place = bench.copy_of(x);
        bench.run(kernels::Rotate{all_of(y), all_of(x), r});
        bench.run(kernels::Rotate{all_of(in_place), all_of(in_place), r});
        const Doubles expected = naive_rotation(bench.download(x), r, bench.download(cosine), bench.download(sine));
        check_close(bench.download(y), expected, one_rounding(dtype), 0.1);
        CHECK(bench.bits(in_place) == bench.bits(y));
      }
}

TEST_CASE(
    "training: mixed dtypes where one is asked for are a mistake of ours, and so are dtypes that are not trained") {
  TrainingBench bench;
  const Tensor x = bench.random(8, Dtype::F32, 0, 1, 1), y = bench.random(8, Dtype::BF16, 0, 1, 2),
               z = bench.random(8, Dtype::F16, 0, 1, 3);
  CHECK_THROWS_AS(bench.run(kernels::SwiGluBackward{all_of(x), all_of(y), all_of(x), all_of(x), all_of(x), 8}),
                  BugError);
  CHECK_THROWS_AS(bench.run(kernels::SwiGlu{all_of(y), all_of(x), all_of(x), 8}), BugError);
  CHECK_THROWS_AS(bench.run(kernels::RmsNorm{all_of(y), all_of(x), all_of(x), 1, 8, 1e-5F}), BugError);
  CHECK_THROWS_AS(bench.run(kernels::Add{all_of(x), all_of(x), all_of(z), 8}), EnvError);
}

}  // namespace gpuplan::test
