#include <array>

#include "base/error.h"
#include "cuda_device/kernels/bench.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

struct Expected {
  Doubles out, lse, dq, dk, dv;
};

/// As AttentionShape defines it, head by head and query by query, and the derivatives of sum(out x dout).
Expected naive_sequence_attention(const AttentionShape& s, const Doubles& q, const Doubles& k, const Doubles& v,
                                  const Doubles& dout) {
  Expected e{Doubles(q.size()), Doubles(std::size_t(s.batch * s.heads * s.seq)), Doubles(q.size()), Doubles(k.size()),
             Doubles(k.size())};
  const double scale = 1 / std::sqrt(double(s.head_size));
  const auto dot = [&s](const Doubles& a, std::size_t at_a, const Doubles& b, std::size_t at_b) {
    double sum = 0;
    for (std::size_t d = 0; d < std::size_t(s.head_size); ++d) sum += a[at_a + d] * b[at_b + d];
    return sum;
  };
  const auto add = [&s](Doubles& to, std::size_t at, double factor, const Doubles& from, std::size_t at_from) {
    for (std::size_t d = 0; d < std::size_t(s.head_size); ++d) to[at + d] += factor * from[at_from + d];
  };
  for (std::int64_t row = 0; row < s.batch * s.heads * s.seq; ++row) {
    const auto query = row % s.seq, head = row / s.seq % s.heads, sequence = row / s.seq / s.heads;
    const auto at = std::size_t(((sequence * s.seq + query) * s.heads + head) * s.head_size);
    const auto key_at = [&](std::int64_t key) {
      return std::size_t(((sequence * s.seq + key) * s.kv_heads + head / (s.heads / s.kv_heads)) * s.head_size);
    };
    const auto first = s.window > 0 ? std::max<std::int64_t>(0, query - s.window + 1) : 0;
    double sum = 0;
    for (auto key = first; key <= query; ++key) sum += std::exp(scale * dot(q, at, k, key_at(key)));
    const auto weight = [&](std::int64_t key) { return std::exp(scale * dot(q, at, k, key_at(key))) / sum; };
    e.lse[std::size_t(row)] = std::log(sum);
    for (auto key = first; key <= query; ++key) add(e.out, at, weight(key), v, key_at(key));
    const double delta = dot(e.out, at, dout, at);
    for (auto key = first; key <= query; ++key) {
      const double score_gradient = scale * weight(key) * (dot(dout, at, v, key_at(key)) - delta);
      add(e.dv, key_at(key), weight(key), dout, at);
      add(e.dq, at, score_gradient, k, key_at(key));
      add(e.dk, key_at(key), score_gradient, q, at);
    }
  }
  return e;
}

/// One attention and all its tensors on the device; `shift`: elements behind an aligned address.
struct Training {
  Bench& bench;
  AttentionShape shape;
  std::int64_t shift = 0;
  std::int64_t num_q = shape.batch * shape.seq * shape.heads * shape.head_size;
  std::int64_t num_k = shape.batch * shape.seq * shape.kv_heads * shape.head_size;
  Tensor q = bench.random(num_q, shape.dtype, -2, 2, 1, shift), k = bench.random(num_k, shape.dtype, -2, 2, 2, shift);
  Tensor v = bench.random(num_k, shape.dtype, -1, 1, 3, shift),
         dout = bench.random(num_q, shape.dtype, -1, 1, 4, shift);
  Tensor out = bench.empty(num_q, shape.dtype, shift),
         lse = bench.empty(shape.batch * shape.heads * shape.seq, Dtype::F32);
  Tensor dq = bench.empty(num_q, shape.dtype, shift), dk = bench.empty(num_k, shape.dtype, shift);
  Tensor dv = bench.empty(num_k, shape.dtype, shift), scratch = bench.empty(num_q, Dtype::F32);

  void run() {
    float* const lse_at = static_cast<float*>(lse.data());
    bench.run(kernels::Attention{shape, q.data(), k.data(), v.data(), out.data(), lse_at});
    bench.run(kernels::AttentionBackward{shape, dout.data(), q.data(), k.data(), v.data(), out.data(), lse_at,
                                         dq.data(), dk.data(), dv.data(), static_cast<float*>(scratch.data())});
  }
};

void check_sequence_attention(const AttentionShape& shape, std::int64_t shift = 0) {
  CAPTURE(shape.seq);
  CAPTURE(shape.heads);
  CAPTURE(shape.kv_heads);
  CAPTURE(shape.head_size);
  CAPTURE(shape.window);
  CAPTURE(to_string(shape.dtype));
  Bench bench;
  Training training{.bench = bench, .shape = shape, .shift = shift};
  training.run();
  const Expected expected = naive_sequence_attention(shape, bench.download(training.q), bench.download(training.k),
                                                     bench.download(training.v), bench.download(training.dout));
  const double tolerance = tolerance_of(shape.dtype);
  bench.check_guard(training.scratch);
  check_close(bench.download(training.out), expected.out, tolerance, 1);
  check_close(bench.download(training.lse), expected.lse, 2e-5, 1);
  // Weights and gradients of scores are rounded to bf16 before their products.
  check_close(bench.download(training.dq), expected.dq, tolerance, 1);
  check_close(bench.download(training.dk), expected.dk, tolerance, 1);
  check_close(bench.download(training.dv), expected.dv, tolerance, 1);
}

constexpr Dtype kTrained[] = {Dtype::F32, Dtype::BF16};

}  // namespace

TEST_CASE("attention of training and its gradients: sequences that no tile divides, and one query") {
  for (const Dtype dtype : kTrained) {
    check_sequence_attention({.batch = 2, .seq = 75, .heads = 2, .kv_heads = 2, .head_size = 64, .dtype = dtype});
    check_sequence_attention({.batch = 3, .seq = 1, .heads = 2, .kv_heads = 1, .head_size = 16, .dtype = dtype});
    check_sequence_attention({.batch = 1, .seq = 64, .heads = 1, .kv_heads = 1, .head_size = 64, .dtype = dtype});
    check_sequence_attention({.batch = 1, .seq = 140, .heads = 1, .kv_heads = 1, .head_size = 16, .dtype = dtype});
  }
}

TEST_CASE("attention of training: query heads share key heads") {
  for (const Dtype dtype : kTrained) {
    check_sequence_attention({.batch = 2, .seq = 37, .heads = 4, .kv_heads = 2, .head_size = 64, .dtype = dtype});
    check_sequence_attention({.batch = 1, .seq = 37, .heads = 8, .kv_heads = 1, .head_size = 16, .dtype = dtype});
  }
}

TEST_CASE("attention of training takes every head size up to 256, at any address") {
  for (const Dtype dtype : kTrained) {
    for (const std::int64_t head_size : {8, 80, 96, 128})
      check_sequence_attention(
          {.batch = 1, .seq = 70, .heads = 2, .kv_heads = 1, .head_size = head_size, .dtype = dtype});
    for (const std::int64_t head_size : {160, 256})
      check_sequence_attention(
          {.batch = 1, .seq = 21, .heads = 2, .kv_heads = 1, .head_size = head_size, .dtype = dtype});
    for (const std::int64_t head_size : {1, 43})
      check_sequence_attention(
          {.batch = 1, .seq = 35, .heads = 2, .kv_heads = 1, .head_size = head_size, .dtype = dtype});
    check_sequence_attention({.batch = 1, .seq = 35, .heads = 2, .kv_heads = 1, .head_size = 64, .dtype = dtype}, 1);
  }
}

TEST_CASE("attention of training: a query sees the last keys of a window, itself included") {
  for (const Dtype dtype : kTrained)
    for (const std::int64_t window : {1, 7, 33, 1000})
      check_sequence_attention(
          {.batch = 1, .seq = 170, .heads = 2, .kv_heads = 1, .head_size = 16, .window = window, .dtype = dtype});
}

TEST_CASE("attention of training gives the same bits every time, whatever the memory held") {
  Bench bench;
  for (const Dtype dtype : kTrained) {
    const AttentionShape shape{
        .batch = 1, .seq = 100, .heads = 4, .kv_heads = 2, .head_size = 16, .window = 40, .dtype = dtype};
    Training training{.bench = bench, .shape = shape};
    training.run();
    const auto results = [&] {
      return std::array{bench.download(training.out), bench.download(training.dq), bench.download(training.dk),
                        bench.download(training.dv)};
    };
    const auto first = results();
    training.run();
    CHECK(results() == first);
  }
}

TEST_CASE("attention of training refuses what it has no kernel for") {
  Bench bench;
  const AttentionShape wide{.batch = 1, .seq = 8, .heads = 1, .kv_heads = 1, .head_size = 272, .dtype = Dtype::BF16},
      fp8{.batch = 1, .seq = 8, .heads = 1, .kv_heads = 1, .head_size = 64, .dtype = Dtype::F8E4M3},
      fp16{.batch = 1, .seq = 8, .heads = 1, .kv_heads = 1, .head_size = 64, .dtype = Dtype::F16};
  CHECK_THROWS_AS(bench.run(kernels::Attention{wide}), EnvError);
  CHECK_THROWS_AS(bench.run(kernels::Attention{fp8}), EnvError);
  CHECK_THROWS_AS(bench.run(kernels::AttentionBackward{wide}), EnvError);
  CHECK_THROWS_AS(bench.run(kernels::AttentionBackward{fp16}), EnvError);
}

TEST_CASE("attention in fp16, without log-sum-exp: every head size that models have, shared key heads, a window") {
  Bench bench;
  for (const std::int64_t head_size : {16, 64, 80, 128})
    for (const std::int64_t window : {0, 40}) {
      CAPTURE(head_size);
      const AttentionShape shape{.batch = 2,
                                 .seq = 150,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .head_size = head_size,
                                 .window = window,
                                 .dtype = Dtype::F16};
      const Training t{.bench = bench, .shape = shape};
      bench.run(kernels::Attention{shape, t.q.data(), t.k.data(), t.v.data(), t.out.data()});
      const Expected expected = naive_sequence_attention(shape, bench.download(t.q), bench.download(t.k),
                                                         bench.download(t.v), bench.download(t.dout));
      check_close(bench.download(t.out), expected.out, tolerance_of(Dtype::F16), 1);
    }
}
