#include "cuda_device/kernels/bench.h"
#include "device/products.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// softmax(q k^T / sqrt(d)) v of [batch, heads, seq, head_size], causal.
Doubles naive_attention(const AttentionShape& s, const Doubles& q, const Doubles& k, const Doubles& v) {
  Doubles out(q.size());
  const auto size = std::size_t(s.head_size);
  for (std::int64_t row = 0; row < s.batch * s.heads * s.seq; ++row) {
    const auto query = row % s.seq, head = row / s.seq, group = s.heads / s.kv_heads;
    const auto first_key = (head / s.heads * s.kv_heads + head % s.heads / group) * s.seq;
    Doubles weights;
    double sum = 0;
    for (std::int64_t key = 0; key <= query; ++key) {
      double score = 0;
      for (std::size_t d = 0; d < size; ++d)
        score += q[std::size_t(row) * size + d] * k[std::size_t(first_key + key) * size + d];
      sum += std::exp(score / std::sqrt(double(size)));
      weights.push_back(std::exp(score / std::sqrt(double(size))));
    }
    for (std::size_t key = 0; key < weights.size(); ++key)
      for (std::size_t d = 0; d < size; ++d)
        out[std::size_t(row) * size + d] += weights[key] / sum * v[(std::size_t(first_key) + key) * size + d];
  }
  return out;
}

}  // namespace

TEST_CASE("eager attention is softmax(q k^T / sqrt(d)) v in every format, where query heads share key heads") {
  Bench bench;
  for (const Dtype dtype : kFloats)
    for (const std::int64_t head_size : {16, 80, 128}) {
      CAPTURE(to_string(dtype));
      CAPTURE(head_size);
      const AttentionShape shape{
          .batch = 2, .seq = 33, .heads = 6, .kv_heads = 2, .head_size = head_size, .dtype = dtype};
      const std::int64_t num_keys = shape.batch * shape.seq * shape.kv_heads * head_size;
      const Tensor q = bench.random(shape.elements(), dtype, -2, 2, 1), k = bench.random(num_keys, dtype, -2, 2, 2),
                   v = bench.random(num_keys, dtype, -1, 1, 3), out = bench.empty(shape.elements(), dtype),
                   scores = bench.empty(eager_scores_bytes(shape).count / size_of(dtype), dtype);
      eager_attention(bench.device, shape, q.data(), k.data(), v.data(), out.data(), scores.data(), *bench.stream);
      const Doubles expected = naive_attention(shape, bench.download(q), bench.download(k), bench.download(v));
      check_close(bench.download(out), expected, tolerance_of(dtype), 1);
    }
}

TEST_CASE("softmax: rows see what causality says with more keys than queries and with fewer, and are 0 beyond") {
  Bench bench;
  for (const Dtype dtype : kFloats)
    for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>{5, 90}, {90, 20}})
      for (const bool is_causal : {true, false}) {
        const Tensor scores = bench.random(2 * queries * keys, dtype, -8, 8, 1);
        const Doubles before = bench.download(scores);
        bench.run(kernels::Softmax{{scores.data(), dtype}, 2, queries, keys, is_causal});
        Doubles expected(before.size());
        for (std::int64_t row = 0; row < 2 * queries; ++row) {
          const std::int64_t seen = is_causal ? std::min(keys, row % queries + keys - queries + 1) : keys;
          double sum = 0;
          for (std::int64_t j = 0; j < seen; ++j) sum += std::exp(before[std::size_t(row * keys + j)]);
          for (std::int64_t j = 0; j < seen; ++j)
            expected[std::size_t(row * keys + j)] = std::exp(before[std::size_t(row * keys + j)]) / sum;
        }
        check_close(bench.download(scores), expected, tolerance_of(dtype), 0.1);
      }
}
