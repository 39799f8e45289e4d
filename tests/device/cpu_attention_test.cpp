// Attention of the CPU device as products and a softmax, and in fp16, against softmax(q k^T / sqrt(d)) v in double. The
// kernel in the dtypes of training is tested in training_attention_test.cpp.
#include <algorithm>

#include "cpu_fixture.h"
#include "device/products.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// Elements from the beginning of q (or k) to a row of a head: the kernel's layout, or with the rows of a head
/// together.
struct Layout {
  std::int64_t seq, heads, head_size;
  bool is_eager;
  std::size_t at(std::int64_t sequence, std::int64_t head, std::int64_t row) const {
    const std::int64_t begin = is_eager ? (sequence * heads + head) * seq + row : (sequence * seq + row) * heads + head;
    return std::size_t(begin * head_size);
  }
};

std::vector<double> naive(const AttentionShape& s, bool is_eager, const std::vector<double>& q,
                          const std::vector<double>& k, const std::vector<double>& v) {
  std::vector<double> out(q.size(), 0.0);
  const auto size = std::size_t(s.head_size);
  const Layout queries{s.seq, s.heads, s.head_size, is_eager}, keys{s.seq, s.kv_heads, s.head_size, is_eager};
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.seq; ++i) {
        const std::size_t row = queries.at(b, h, i);
        const auto key = [&](std::size_t j) { return keys.at(b, h / (s.heads / s.kv_heads), std::int64_t(j)); };
        std::vector<double> weights;
        double sum = 0;
        for (std::size_t j = 0; j <= std::size_t(i); ++j) {
          double dot = 0;
          for (std::size_t x = 0; x < size; ++x) dot += q[row + x] * k[key(j) + x];
          weights.push_back(std::exp(dot / std::sqrt(double(size))));
          sum += weights.back();
        }
        for (std::size_t j = 0; j < weights.size(); ++j)
          for (std::size_t x = 0; x < size; ++x) out[row + x] += weights[j] / sum * v[key(j) + x];
      }
  return out;
}

/// Probabilities are rounded to the scores' dtype by the eager way, and so is the result; scores reach +-8 here,
/// where one rounding of a score moves its weight by 8 roundings.
double tolerance(Dtype dtype, bool is_eager) {
  return dtype == Dtype::F32 ? 1e-5 : is_eager ? 4 * rounding(dtype) : rounding(dtype);
}

void check(Cpu& cpu, const AttentionShape& s, bool is_eager) {
  CAPTURE(is_eager);
  CAPTURE(to_string(s.dtype));
  CAPTURE(s.seq);
  CAPTURE(s.head_size);
  CAPTURE(s.kv_heads);
  const std::int64_t num_keys = s.batch * s.seq * s.kv_heads * s.head_size;
  const Buffer q = cpu.random(s.elements(), s.dtype, 1, -3, 3), k = cpu.random(num_keys, s.dtype, 2),
               v = cpu.random(num_keys, s.dtype, 3), out = cpu.zeros(s.elements(), s.dtype),
               scores = cpu.device->allocate(eager_scores_bytes(s));
  if (is_eager)
    eager_attention(*cpu.device, s, q.data(), k.data(), v.data(), out.data(), scores.data(), *cpu.stream);
  else
    cpu.run(kernels::Attention{s, q.data(), k.data(), v.data(), out.data()});
  cpu.stream->synchronise();
  const std::vector<double> expected =
      naive(s, is_eager, doubles(q, s.dtype), doubles(k, s.dtype), doubles(v, s.dtype));
  CHECK(worst_error(doubles(out, s.dtype), expected, 1.0) < tolerance(s.dtype, is_eager));
}

}  // namespace

TEST_CASE("the fp16 kernel and eager attention equal the definition: grouped heads, odd sizes" * needs_cpu()) {
  Cpu cpu;
  const std::vector<GemmType> types = cpu.device->facts().gemm_types;
  constexpr std::int64_t kSizes[][2] = {{1, 64}, {7, 40}, {64, 80}, {130, 128}, {65, 13}, {200, 96}};
  for (const bool is_eager : {false, true})
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16})
      for (const auto& [seq, head_size] : kSizes)
        for (const std::int64_t kv_heads : {1, 2, 4}) {
          const GemmType type = dtype == Dtype::F32    ? GemmType::F32
                                : dtype == Dtype::BF16 ? GemmType::BF16
                                                       : GemmType::F16;
          if (is_eager ? std::count(types.begin(), types.end(), type) == 0 : dtype != Dtype::F16) continue;
          const AttentionShape shape{
              .batch = 2, .seq = seq, .heads = 4, .kv_heads = kv_heads, .head_size = head_size, .dtype = dtype};
          check(cpu, shape, is_eager);
        }
}

TEST_CASE("softmax: every row adds up to 1 over what it sees, and is 0 beyond; rows that see nothing are 0" *
          needs_cpu()) {
  Cpu cpu;
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16})
    for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>{9, 9}, {5, 90}, {90, 20}})
      for (const bool is_causal : {true, false}) {
        const Buffer scores = cpu.random(3 * queries * keys, dtype, 1, -8, 8);
        const std::vector<double> before = doubles(scores, dtype);
        cpu.run(kernels::Softmax{{scores.data(), dtype}, 3, queries, keys, is_causal});
        cpu.stream->synchronise();
        const std::vector<double> after = doubles(scores, dtype);
        std::vector<double> expected(before.size(), 0.0);
        for (std::int64_t row = 0; row < 3 * queries; ++row) {
          const std::int64_t seen = is_causal ? std::min(keys, row % queries + keys - queries + 1) : keys;
          double sum = 0;
          for (std::int64_t j = 0; j < seen; ++j) sum += std::exp(before[std::size_t(row * keys + j)]);
          for (std::int64_t j = 0; j < seen; ++j)
            expected[std::size_t(row * keys + j)] = std::exp(before[std::size_t(row * keys + j)]) / sum;
        }
        CAPTURE(to_string(dtype));
        CAPTURE(queries);
        CHECK(worst_error(after, expected, 0.01) < rounding(dtype) + 1e-5);
      }
}
