// Attention: the kernel that `run` executes, or products and a softmax. Checked by rows of the first and the last head
// against a softmax in double on the host.
#include <algorithm>
#include <cmath>

#include "calibrate/probes/values.h"
#include "calibrate/probes/workload.h"
#include "device/products.h"

namespace gpuplan {
namespace {

struct Forward {
  AttentionShape shape;
  bool is_eager = false;
  Buffer scores, lse;
  const void *q{}, *k{}, *v{};
  void* out{};

  Bytes tensor() const { return bytes_of(shape.elements(), shape.dtype); }
  void run(Device& device, Stream& stream) const {
    if (is_eager) return eager_attention(device, shape, q, k, v, out, scores.data(), stream);
    device.run(kernels::Attention{shape, q, k, v, out, lse.as<float>()}, stream);
  }
  /// Offset in q, k, v or out: heads are contiguous, or the rows of all heads are interleaved.
  std::int64_t begin(std::int64_t head, std::int64_t row) const {
    return (is_eager ? head * shape.seq + row : row * shape.heads + head) * shape.head_size;
  }
};

/// Softmax weights of one query over the keys it sees.
std::vector<double> weights_of(const std::vector<double>& query, const std::vector<std::vector<double>>& keys,
                               std::int64_t num_seen) {
  const auto size = std::ssize(query);
  std::vector<double> weights(std::size_t(num_seen), 0.0);
  double sum = 0;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    double score = 0;
    for (std::size_t i = 0; i < query.size(); ++i) score += query[i] * keys[j][i];
    sum += weights[j] = std::exp(score / std::sqrt(double(size)));  // |score| <= sqrt(size): no overflow
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

void check_head(const Forward& f, std::int64_t head, const HostView& view) {
  const AttentionShape& shape = f.shape;
  const auto row_of = [&](const void* tensor, std::int64_t i) {
    return view.numbers(tensor, shape.dtype, f.begin(head, i), shape.head_size);
  };
  std::vector<std::vector<double>> keys, values;
  for (std::int64_t i = 0; i < shape.seq; ++i) keys.push_back(row_of(f.k, i)), values.push_back(row_of(f.v, i));
  for (const std::int64_t row : {std::int64_t(0), shape.seq * 5 / 9, shape.seq - 1}) {
    const auto got = row_of(f.out, row), weights = weights_of(row_of(f.q, row), keys, row + 1);
    for (std::size_t i = 0; i < got.size(); ++i) {
      double sum = 0, magnitude = 0;
      for (std::size_t j = 0; j < weights.size(); ++j) {
        const double part = weights[j] * values[j][i];
        sum += part;
        magnitude += std::abs(part);
      }
      expect_near(got[i], sum, tolerance_of(shape.dtype, magnitude), "attention", f.begin(head, row) + std::int64_t(i));
    }
  }
}

}  // namespace

Workload attention_workload(const Probe& probe, ProbeBench& bench, Stream& stream) {
  const auto forward = std::make_shared<Forward>();
  forward->shape = probe.attention_shape();
  forward->is_eager = probe.attention == AttentionWork::Eager;
  const AttentionShape& shape = forward->shape;
  Device* const device = &bench.device;
  OperandPools* const pools = &pools_of(bench);
  const Bytes part = aligned(forward->tensor());
  const auto operands = [pools, &stream, dtype = shape.dtype, size = 3 * part] {
    return static_cast<std::byte*>(pools->fresh(dtype, size, stream));
  };
  operands();
  pools->results(forward->tensor(), stream);
  if (forward->is_eager)
    forward->scores = device->allocate(eager_scores_bytes(shape));
  else
    forward->lse = device->allocate(bytes_of(shape.heads * shape.seq, Dtype::F32));
  const auto call = [forward, device, pools, &stream, part, operands] {
    const std::byte* const at = operands();
    forward->q = at;
    forward->k = at + part.count;
    forward->v = at + 2 * part.count;
    forward->out = pools->results({}, stream).next(forward->tensor());
    forward->run(*device, stream);
  };
  const auto check = [forward, device, &stream] {
    check_head(*forward, 0, HostView(*device, stream));
    check_head(*forward, forward->shape.heads - 1, HostView(*device, stream));
  };
  return {call, check, pools->hand_over(operands(), 3 * part, stream)};
}

}  // namespace gpuplan
