// Training attention of the CPU device: forward against its definition in double, backward against finite differences
// of it. tests/CMakeLists.txt runs this once per instruction set.
#include "training_fixture.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// out and lse of the definition.
struct Attended {
  Doubles out, lse;
};
Attended attend(const AttentionShape& s, const Doubles& q, const Doubles& k, const Doubles& v) {
  Attended result{Doubles(q.size(), 0.0), Doubles(std::size_t(s.batch * s.heads * s.seq), 0.0)};
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.seq; ++i) {
        const auto at = [&](std::int64_t row) {
          return std::size_t(((b * s.seq + row) * s.kv_heads + h * s.kv_heads / s.heads) * s.head_size);
        };
        const auto query = std::size_t(((b * s.seq + i) * s.heads + h) * s.head_size);
        const std::int64_t first = s.window > 0 ? std::max<std::int64_t>(0, i - s.window + 1) : 0;
        Doubles weights;
        double sum = 0;
        for (std::int64_t j = first; j <= i; ++j) {
          double dot = 0;
          for (std::size_t x = 0; x < std::size_t(s.head_size); ++x) dot += q[query + x] * k[at(j) + x];
          weights.push_back(std::exp(dot / std::sqrt(double(s.head_size))));
          sum += weights.back();
        }
        result.lse[std::size_t((b * s.heads + h) * s.seq + i)] = std::log(sum);
        for (std::int64_t j = first; j <= i; ++j)
          for (std::size_t x = 0; x < std::size_t(s.head_size); ++x)
            result.out[query + x] += weights[std::size_t(j - first)] / sum * v[at(j) + x];
      }
  return result;
}

/// The gradients in double, by the chain rule; checked against finite differences below, and quick enough for long
/// sequences.
struct Gradients {
  Doubles q, k, v;
};
Gradients backward(const AttentionShape& s, const Attended& forward, const Doubles& dout, const Doubles& q,
                   const Doubles& k, const Doubles& v) {
  Gradients g{Doubles(q.size(), 0.0), Doubles(k.size(), 0.0), Doubles(v.size(), 0.0)};
  const auto size = std::size_t(s.head_size);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.seq; ++i) {
        const auto query = std::size_t((b * s.seq + i) * s.heads + h) * size;
        double delta = 0;
        for (std::size_t x = 0; x < size; ++x) delta += dout[query + x] * forward.out[query + x];
        for (std::int64_t j = s.window > 0 ? std::max<std::int64_t>(0, i - s.window + 1) : 0; j <= i; ++j) {
          const auto key = std::size_t((b * s.seq + j) * s.kv_heads + h * s.kv_heads / s.heads) * size;
          double dot = 0, dp = 0;
          for (std::size_t x = 0; x < size; ++x) dot += q[query + x] * k[key + x], dp += dout[query + x] * v[key + x];
          const double scale = 1 / std::sqrt(double(s.head_size));
          const double p = std::exp(dot * scale - forward.lse[std::size_t((b * s.heads + h) * s.seq + i)]),
                       ds = p * (dp - delta) * scale;
          for (std::size_t x = 0; x < size; ++x) {
            g.v[key + x] += p * dout[query + x];
            g.q[query + x] += ds * k[key + x];
            g.k[key + x] += ds * q[query + x];
          }
        }
      }
  return g;
}

/// Random operands on the device and what the kernels make of them.
struct Case {
  AttentionShape s;
  Array q, k, v, dout, out, lse, dq, dk, dv;

  Case(Trainer& cpu, const AttentionShape& shape) : s(shape) {
    const std::int64_t queries = s.batch * s.seq * s.heads * s.head_size,
                       keys = s.batch * s.seq * s.kv_heads * s.head_size;
    q = cpu.array(queries, s.dtype, 1, -3, 3), k = cpu.array(keys, s.dtype, 2), v = cpu.array(keys, s.dtype, 3);
    dout = cpu.array(queries, s.dtype, 4), out = cpu.array(queries, s.dtype, 5), dq = cpu.array(queries, s.dtype, 6);
    dk = cpu.array(keys, s.dtype, 7), dv = cpu.array(keys, s.dtype, 8);
    lse = cpu.array(s.batch * s.heads * s.seq, Dtype::F32, 9);
    const Array scratch = cpu.array(queries, Dtype::F32, 10);
    cpu.run(kernels::Attention{s, q.buffer.data(), k.buffer.data(), v.buffer.data(), out.buffer.data(),
                               lse.buffer.as<float>()});
    cpu.run(kernels::AttentionBackward{s, dout.buffer.data(), q.buffer.data(), k.buffer.data(), v.buffer.data(),
                                       out.buffer.data(), lse.buffer.as<float>(), dq.buffer.data(), dk.buffer.data(),
                                       dv.buffer.data(), scratch.buffer.as<float>()});
    cpu.stream->synchronise();
  }
};

/// fp32: sums of up to 300 products of numbers below 3. bf16: results are rounded once, but delta is made of `out` as
/// stored, a rounding of each of whose numbers moves ds by a part of that.
double tolerance(Dtype dtype) { return dtype == Dtype::F32 ? 2e-5 : 2 * rounding(dtype); }

void check(Trainer& cpu, const AttentionShape& s) {
  CAPTURE(to_string(s.dtype));
  CAPTURE(s.seq);
  CAPTURE(s.head_size);
  CAPTURE(s.kv_heads);
  CAPTURE(s.window);
  const Case c(cpu, s);
  const Attended expected = attend(s, c.q.values(), c.k.values(), c.v.values());
  CHECK(worst_error(c.out.values(), expected.out, 1) < rounding(s.dtype) + 1e-5);
  CHECK(worst_error(c.lse.values(), expected.lse, 1) < 1e-5);
  const Gradients g = backward(s, expected, c.dout.values(), c.q.values(), c.k.values(), c.v.values());
  CHECK(worst_error(c.dq.values(), g.q, 1) < tolerance(s.dtype));
  CHECK(worst_error(c.dk.values(), g.k, 1) < tolerance(s.dtype));
  CHECK(worst_error(c.dv.values(), g.v, 1) < tolerance(s.dtype));
}

}  // namespace

TEST_CASE("training: gradients of attention are its finite differences, with shared key heads and with a window" *
          needs_cpu()) {
  Trainer cpu;
  for (const Dtype dtype : kTrained)
    for (const std::int64_t window : {0, 1, 4}) {
      const AttentionShape s{
          .batch = 2, .seq = 9, .heads = 4, .kv_heads = 2, .head_size = 5, .window = window, .dtype = dtype};
      const Case c(cpu, s);
      const Doubles q = c.q.values(), k = c.k.values(), v = c.v.values(), dout = c.dout.values();
      CAPTURE(to_string(dtype));
      CAPTURE(window);
      const Doubles dq = differences([&](const Doubles& x) { return attend(s, x, k, v).out; }, q, dout);
      const Doubles dk = differences([&](const Doubles& x) { return attend(s, q, x, v).out; }, k, dout);
      const Doubles dv = differences([&](const Doubles& x) { return attend(s, q, k, x).out; }, v, dout);
      CHECK(worst_error(c.dq.values(), dq, 1) < tolerance(dtype));
      CHECK(worst_error(c.dk.values(), dk, 1) < tolerance(dtype));
      CHECK(worst_error(c.dv.values(), dv, 1) < tolerance(dtype));
      const Gradients g = backward(s, attend(s, q, k, v), dout, q, k, v);  // the chain rule of the next test is right
      CHECK(worst_error(g.q, dq, 1) < 1e-8);
      CHECK(worst_error(g.k, dk, 1) < 1e-8);
      CHECK(worst_error(g.v, dv, 1) < 1e-8);
    }
}

TEST_CASE("training: attention forward and backward over several tiles, odd sizes, shared key heads, windows" *
          needs_cpu()) {
  Trainer cpu;
  constexpr std::int64_t kSizes[][2] = {{1, 64},   {64, 32},  {65, 13},
                                        {130, 40}, {257, 20}, {150, 80}};  // seq, head_size
  for (const Dtype dtype : kTrained)
    for (const auto& [seq, head_size] : kSizes)
      for (const std::int64_t kv_heads : {1, 2, 4})
        for (const std::int64_t window : {0, 1, 50, 64, 129, 1000}) {
          if (kv_heads != 2 && window != 0 && window != 50) continue;
          check(cpu, {.batch = 1 + kv_heads % 2,
                      .seq = seq,
                      .heads = 4,
                      .kv_heads = kv_heads,
                      .head_size = head_size,
                      .window = window,
                      .dtype = dtype});
        }
}

TEST_CASE("training: attention has the same bits with any number of threads, be they fewer than key heads or more" *
          needs_cpu()) {
  Trainer one(1), two(2), six(6);  // of 4 key heads: by head, by head, by tile
  for (const Dtype dtype : kTrained)
    for (const std::int64_t window : {0, 100}) {
      const AttentionShape s{
          .batch = 2, .seq = 300, .heads = 6, .kv_heads = 2, .head_size = 24, .window = window, .dtype = dtype};
      const Case a(one, s), b(two, s), c(six, s);
      for (const auto& member : {&Case::out, &Case::lse, &Case::dq, &Case::dk, &Case::dv}) {
        CHECK((a.*member).has_bits_of(b.*member));
        CHECK((a.*member).has_bits_of(c.*member));
      }
    }
}

TEST_CASE("training: large scores neither overflow nor lose their gradient" * needs_cpu()) {
  Trainer cpu;
  const AttentionShape s{.seq = 70, .heads = 1, .kv_heads = 1, .head_size = 64};
  Case c(cpu, s);
  const Array q = cpu.array(70 * 64, Dtype::F32, 1, 60, 60.001F), k = cpu.array(70 * 64, Dtype::F32, 2, 60, 60.000001F),
              scratch = cpu.array(70 * 64, Dtype::F32, 3);
  // All keys equal: query i weighs i + 1 keys alike, whatever the score (64 x 60 x 60 / 8 = 28800), so dv of key 0 is
  // the sum of dout[i] / (i + 1). The lse of 28800 + log(i + 1) has steps of 0.002, which p has too.
  cpu.run(kernels::Attention{s, q.buffer.data(), k.buffer.data(), c.v.buffer.data(), c.out.buffer.data(),
                             c.lse.buffer.as<float>()});
  cpu.run(kernels::AttentionBackward{s, c.dout.buffer.data(), q.buffer.data(), k.buffer.data(), c.v.buffer.data(),
                                     c.out.buffer.data(), c.lse.buffer.as<float>(), c.dq.buffer.data(),
                                     c.dk.buffer.data(), c.dv.buffer.data(), scratch.buffer.as<float>()});
  cpu.stream->synchronise();
  const Doubles dout = c.dout.values();
  Doubles expected(64, 0.0), dv = c.dv.values();
  for (std::size_t i = 0; i < 70; ++i)
    for (std::size_t x = 0; x < 64; ++x) expected[x] += dout[i * 64 + x] / double(i + 1);
  dv.resize(64);
  CHECK(worst_error(dv, expected, 1) < 0.01);
}
