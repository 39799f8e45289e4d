// Gradients of causal attention, by the kernels that training uses. They are a function of what forward kept, whatever
// that is, so output and log-sum-exp are random numbers as well. Checked by rows of all three gradients in double on
// the host.
#include <algorithm>
#include <cmath>

#include "calibrate/probes/values.h"
#include "calibrate/probes/workload.h"

namespace gpuplan {
namespace {

struct Backward {
  AttentionShape shape;
  Buffer scratch;
  const std::byte *q{}, *k{}, *v{}, *out{}, *dout{};  // [seq, heads, head_size]
  const float* lse{};                                 // [heads, seq]
  std::byte *dq{}, *dk{}, *dv{};

  Bytes tensor() const { return aligned(bytes_of(shape.elements(), shape.dtype)); }
};

/// One head on the host.
class Head {
 public:
  Head(const Backward& b, std::int64_t head, const HostView& view)
      : b_(b),
        head_(head),
        view_(view),
        lse_(view.numbers(b.lse, Dtype::F32, head * b.shape.seq, b.shape.seq)) {}

  std::vector<double> row(const std::byte* tensor, std::int64_t at) const {
    return view_.numbers(tensor, b_.shape.dtype, (at * b_.shape.heads + head_) * b_.shape.head_size,
                         b_.shape.head_size);
  }
  /// d loss / d score of query i and key j over sqrt(head_size), and the weight itself.
  struct Pair {
    double weight, gradient;
  };
  Pair pair(const std::vector<double>& query, const std::vector<double>& key, const std::vector<double>& value,
            std::int64_t i) const {
    const std::vector<double> dout = row(b_.dout, i), out = row(b_.out, i);
    const double scale = 1 / std::sqrt(double(b_.shape.head_size));
    const double weight = std::exp(scale * dot(query, key) - lse_[std::size_t(i)]);
    return {weight, scale * weight * (dot(dout, value) - dot(dout, out))};
  }

 private:
  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }
  const Backward& b_;
  std::int64_t head_;
  const HostView& view_;
  std::vector<double> lse_;
};

/// Sums of products, and of their magnitudes, which say how far a kernel may be off: probabilities and what they
/// multiply are rounded to the dtype.
struct Sums {
  std::vector<double> value, magnitude;
  explicit Sums(std::int64_t size) : value(std::size_t(size)), magnitude(std::size_t(size)) {}
  void add(double factor, const std::vector<double>& with) {
    for (std::size_t i = 0; i < with.size(); ++i)
      value[i] += factor * with[i], magnitude[i] += std::abs(factor * with[i]);
  }
  void expect(const std::vector<double>& got, Dtype dtype, const char* what) const {
    const double rounding = dtype == Dtype::F32 ? 1e-4 : 8 * rounding_error(dtype);
    const double most = *std::max_element(magnitude.begin(), magnitude.end());
    for (std::size_t i = 0; i < got.size(); ++i)
      expect_near(got[i], value[i], rounding * most + 1e-5, what, std::int64_t(i));
  }
};

/// The gradient of one query, and those of the last keys, which few queries see.
void check_head(const Backward& b, std::int64_t head, const HostView& view) {
  const Head h(b, head, view);
  const std::int64_t size = b.shape.head_size, last = b.shape.seq - 1, query = b.shape.seq * 5 / 9;
  Sums dq(size);
  const std::vector<double> q = h.row(b.q, query);
  for (std::int64_t j = 0; j <= query; ++j) {
    const std::vector<double> key = h.row(b.k, j);
    dq.add(h.pair(q, key, h.row(b.v, j), query).gradient, key);
  }
  dq.expect(h.row(b.dq, query), b.shape.dtype, "dq");
  const std::int64_t key = std::max<std::int64_t>(0, last - 2);
  Sums dk(size), dv(size);
  for (std::int64_t i = key; i <= last; ++i) {
    const std::vector<double> seen_by = h.row(b.q, i);
    const Head::Pair pair = h.pair(seen_by, h.row(b.k, key), h.row(b.v, key), i);
    dk.add(pair.gradient, seen_by);
    dv.add(pair.weight, h.row(b.dout, i));
  }
  dk.expect(h.row(b.dk, key), b.shape.dtype, "dk");
  dv.expect(h.row(b.dv, key), b.shape.dtype, "dv");
}

}  // namespace

Workload attention_backward_workload(const Probe& probe, ProbeBench& bench, Stream& stream) {
  const auto b = std::make_shared<Backward>();
  b->shape = probe.attention_shape();
  Device* const device = &bench.device;
  OperandPools* const pools = &pools_of(bench);
  const Bytes part = b->tensor(), lse = aligned(bytes_of(b->shape.seq * b->shape.heads, Dtype::F32));
  const auto operands = [pools, &stream, dtype = probe.dtype, size = 5 * part] {
    return static_cast<std::byte*>(pools->fresh(dtype, size, stream));
  };
  operands();
  pools->random(Dtype::F32, lse, stream);
  pools->results(3 * part, stream);
  b->scratch = device->allocate(bytes_of(b->shape.elements(), Dtype::F32));
  const auto call = [b, device, pools, &stream, part, lse, operands] {
    const std::byte* const at = operands();
    auto* const results = pools->results({}, stream).next_as<std::byte>(3 * part);
    const std::byte** const inputs[] = {&b->q, &b->k, &b->v, &b->out, &b->dout};
    for (std::size_t i = 0; i < std::size(inputs); ++i) *inputs[i] = at + std::int64_t(i) * part.count;
    b->lse = pools->random(Dtype::F32, {}, stream).next_as<float>(lse);
    b->dq = results, b->dk = results + part.count, b->dv = results + 2 * part.count;
    device->run(kernels::AttentionBackward{b->shape, b->dout, b->q, b->k, b->v, b->out, b->lse, b->dq, b->dk, b->dv,
                                           b->scratch.as<float>()},
                stream);
  };
  const auto check = [b, device, &stream] {
    const HostView view(*device, stream);
    check_head(*b, 0, view);
    check_head(*b, b->shape.heads - 1, view);
  };
  return {call, check, pools->hand_over(operands(), 5 * part, stream)};
}

}  // namespace gpuplan
