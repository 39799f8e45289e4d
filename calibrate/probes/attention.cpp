// Attention kernels. Checked by rows of the first and the last head against a softmax in double on the host.
#include <algorithm>
#include <cmath>

#include "calibrate/probes/values.h"
#include "calibrate/probes/workload.h"

namespace gpuplan {
namespace {

struct Attention {
  AttentionProblem problem;
  Buffer scores;
  const void *q{}, *k{}, *v{};
  void* out{};

  std::int64_t head_elements() const { return problem.queries * problem.head_size; }
  Bytes tensor() const { return bytes_of(problem.heads * head_elements(), problem.dtype); }
};

/// Softmax weights of one query over the keys it sees.
std::vector<double> weights_of(const std::vector<double>& query, const std::vector<double>& keys,
                               std::int64_t num_seen) {
  const auto size = std::ssize(query);
  std::vector<double> weights(std::size_t(num_seen), 0.0);
  double sum = 0;
  for (std::int64_t j = 0; j < num_seen; ++j) {
    double score = 0;
    for (std::int64_t i = 0; i < size; ++i) score += query[std::size_t(i)] * keys[std::size_t(j * size + i)];
    sum += weights[std::size_t(j)] = std::exp(score / std::sqrt(double(size)));  // |score| <= sqrt(size): no overflow
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// Weights, values and scores (of eager attention) are each rounded once to the dtype; fp32 kernels may use a short
/// exp.
double tolerance_of(Dtype dtype, double magnitude) {
  const double rounding = dtype == Dtype::F32 ? 1e-5 : 4 * rounding_error(dtype);
  return rounding * magnitude + 1e-6;
}

void check_head(const Attention& attention, std::int64_t head, const HostView& view) {
  const AttentionProblem& problem = attention.problem;
  const std::int64_t size = problem.head_size, first = head * attention.head_elements();
  const auto keys = view.numbers(attention.k, problem.dtype, first, attention.head_elements());
  const auto values = view.numbers(attention.v, problem.dtype, first, attention.head_elements());
  for (const std::int64_t row : {std::int64_t(0), problem.queries * 5 / 9, problem.queries - 1}) {
    const auto query = view.numbers(attention.q, problem.dtype, first + row * size, size);
    const auto got = view.numbers(attention.out, problem.dtype, first + row * size, size);
    const auto weights = weights_of(query, keys, row + 1);
    for (std::int64_t i = 0; i < size; ++i) {
      double sum = 0, magnitude = 0;
      for (std::int64_t j = 0; j <= row; ++j) {
        const double part = weights[std::size_t(j)] * values[std::size_t(j * size + i)];
        sum += part;
        magnitude += std::abs(part);
      }
      expect_near(got[std::size_t(i)], sum, tolerance_of(problem.dtype, magnitude), "attention",
                  first + row * size + i);
    }
  }
}

}  // namespace

Workload attention_workload(const Probe& probe, ProbeBench& bench, Stream& stream) {
  const auto attention = std::make_shared<Attention>();
  attention->problem = probe.attention_problem();
  const AttentionProblem& problem = attention->problem;
  Device* const device = &bench.device;
  OperandPools* const pools = &pools_of(bench);
  const Bytes part = aligned(attention->tensor());
  const auto operands = [pools, &stream, dtype = problem.dtype, size = 3 * part] {
    return static_cast<std::byte*>(pools->fresh(dtype, size, stream));
  };
  operands();
  pools->results(attention->tensor(), stream);
  if (problem.kernel == AttentionMethod::Eager) attention->scores = device->allocate(problem.scores_bytes());
  const auto call = [attention, device, pools, &stream, part, operands] {
    const std::byte* const at = operands();
    attention->q = at;
    attention->k = at + part.count;
    attention->v = at + 2 * part.count;
    attention->out = pools->results({}, stream).next(attention->tensor());
    device->attention(attention->problem, attention->q, attention->k, attention->v, attention->out,
                      attention->scores.data(), stream);
  };
  const auto check = [attention, device, &stream] {
    check_head(*attention, 0, HostView(*device, stream));
    check_head(*attention, attention->problem.heads - 1, HostView(*device, stream));
  };
  return {call, check, pools->hand_over(operands(), 3 * part, stream)};
}

}  // namespace gpuplan
