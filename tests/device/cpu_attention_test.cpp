// Both attention kernels of the CPU device against softmax(q k^T / sqrt(d)) v in double.
#include <algorithm>

#include "cpu_fixture.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

std::vector<double> naive(const AttentionProblem& p, const std::vector<double>& q, const std::vector<double>& k,
                          const std::vector<double>& v) {
  std::vector<double> out(q.size(), 0.0);
  const std::int64_t d = p.head_size;
  for (std::int64_t h = 0; h < p.batch * p.heads; ++h)
    for (std::int64_t i = 0; i < p.queries; ++i) {
      const std::int64_t row = (h * p.queries + i) * d;
      const std::int64_t kv = (h / p.heads * p.kv_heads + h % p.heads / (p.heads / p.kv_heads)) * p.keys * d;
      const std::int64_t seen = p.is_causal ? i + p.keys - p.queries + 1 : p.keys;
      std::vector<double> weights;
      double sum = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        double dot = 0;
        for (std::int64_t x = 0; x < d; ++x) dot += q[std::size_t(row + x)] * k[std::size_t(kv + j * d + x)];
        weights.push_back(std::exp(dot / std::sqrt(double(d))));
        sum += weights.back();
      }
      for (std::int64_t j = 0; j < seen; ++j)
        for (std::int64_t x = 0; x < d; ++x)
          out[std::size_t(row + x)] += weights[std::size_t(j)] / sum * v[std::size_t(kv + j * d + x)];
    }
  return out;
}

/// Probabilities are rounded to the scores' dtype by the eager kernel, and so is the result; scores reach +-8 here,
/// where one rounding of a score moves its weight by 8 roundings.
double tolerance(const AttentionProblem& p) {
  return p.dtype == Dtype::F32 ? 1e-5 : p.kernel == AttentionMethod::Eager ? 4 * rounding(p.dtype) : rounding(p.dtype);
}

void check(Cpu& cpu, const AttentionProblem& p) {
  CAPTURE(int(p.kernel));
  CAPTURE(to_string(p.dtype));
  CAPTURE(p.queries);
  CAPTURE(p.keys);
  CAPTURE(p.head_size);
  CAPTURE(p.kv_heads);
  CAPTURE(p.is_causal);
  const Buffer q = cpu.random(p.batch * p.heads * p.queries * p.head_size, p.dtype, 1, -3, 3),
               k = cpu.random(p.batch * p.kv_heads * p.keys * p.head_size, p.dtype, 2),
               v = cpu.random(p.batch * p.kv_heads * p.keys * p.head_size, p.dtype, 3),
               out = cpu.zeros(p.batch * p.heads * p.queries * p.head_size, p.dtype),
               scores = cpu.zeros(p.scores_bytes().count / size_of(p.dtype), p.dtype);
  cpu.device->attention(p, q.data(), k.data(), v.data(), out.data(), scores.data(), *cpu.stream);
  cpu.stream->synchronise();
  const std::vector<double> expected = naive(p, doubles(q, p.dtype), doubles(k, p.dtype), doubles(v, p.dtype));
  CHECK(worst_error(doubles(out, p.dtype), expected, 1.0) < tolerance(p));
}

}  // namespace

TEST_CASE(
    "flash and eager attention equal the definition: causal or not, grouped heads, more keys than queries, odd sizes") {
  DeviceBackend* const backend = cpu_backend();
  if (!backend) return;
  Cpu cpu(*backend);
  const std::vector<GemmType> types = cpu.device->facts().gemm_types;
  constexpr std::int64_t kSizes[][3] = {{1, 1, 64},      {1, 200, 64},  {7, 7, 40},    {64, 128, 80},
                                        {130, 130, 128}, {65, 300, 13}, {200, 201, 96}};
  for (const AttentionMethod kernel : {AttentionMethod::Flash, AttentionMethod::Eager})
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16})
      for (const auto& [queries, keys, head_size] : kSizes)
        for (const std::int64_t kv_heads : {1, 2, 4})
          for (const bool is_causal : {true, false}) {
            const GemmType type = dtype == Dtype::F32    ? GemmType::F32
                                  : dtype == Dtype::BF16 ? GemmType::BF16
                                                         : GemmType::F16;
            if (kernel == AttentionMethod::Eager && std::count(types.begin(), types.end(), type) == 0) continue;
            check(cpu, {.batch = 2,
                        .heads = 4,
                        .kv_heads = kv_heads,
                        .queries = queries,
                        .keys = keys,
                        .head_size = head_size,
                        .dtype = dtype,
                        .kernel = kernel,
                        .is_causal = is_causal});
          }
}

TEST_CASE("large scores do not overflow the running softmax") {
  DeviceBackend* const backend = cpu_backend();
  if (!backend) return;
  Cpu cpu(*backend);
  // All keys equal: every weight is 1 / keys whatever the score (here 64 x 60 x 60 / 8 = 28800), so out is the mean of
  // v.
  const AttentionProblem p{.heads = 1, .kv_heads = 1, .queries = 70, .keys = 300, .head_size = 64, .is_causal = false};
  const Buffer q = cpu.random(70 * 64, p.dtype, 1, 60, 60.001F), k = cpu.random(300 * 64, p.dtype, 2, 60, 60.000001F),
               v = cpu.random(300 * 64, p.dtype, 3, 1, 1.0000001F), out = cpu.zeros(70 * 64, p.dtype);
  cpu.device->attention(p, q.data(), k.data(), v.data(), out.data(), nullptr, *cpu.stream);
  cpu.stream->synchronise();
  CHECK(worst_error(doubles(out, p.dtype), std::vector<double>(70 * 64, 1.0), 0) < 1e-5);
}

TEST_CASE("queries that see no key give zeros") {
  DeviceBackend* const backend = cpu_backend();
  if (!backend) return;
  Cpu cpu(*backend);
  // 100 queries, 30 keys: query i sees keys up to i - 70, so the first 70 see none.
  const AttentionProblem p{.heads = 1, .kv_heads = 1, .queries = 100, .keys = 30, .head_size = 16};
  const Buffer q = cpu.random(1600, p.dtype, 1), k = cpu.random(480, p.dtype, 2), v = cpu.random(480, p.dtype, 3, 1, 2),
               out = cpu.random(1600, p.dtype, 4);
  cpu.device->attention(p, q.data(), k.data(), v.data(), out.data(), nullptr, *cpu.stream);
  cpu.stream->synchronise();
  const std::vector<double> values = doubles(out, p.dtype);
  CHECK(std::all_of(values.begin(), values.begin() + 70 * 16, [](double x) { return x == 0; }));
  CHECK(std::all_of(values.begin() + 70 * 16, values.end(), [](double x) { return x >= 1; }));
}
