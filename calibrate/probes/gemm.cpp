// Matrix products. Checked by entries of the result, from its corners and its middle, against sums in double on the
// host.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "calibrate/probes/values.h"
#include "calibrate/probes/workload.h"
#include "cluster/profile/gemm_surface.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kBlock = 3;  // neighbouring rows or columns that are looked at together

/// One operand as vectors along k: [count, k] when contiguous, else [k, count].
struct Operand {
  const std::byte* data;
  Dtype dtype;
  std::int64_t count, k;
  bool is_contiguous;
  std::vector<std::byte> whole{};  // on the host, where that is quicker than its pieces

  Bytes bytes() const { return bytes_of(count * k, dtype); }
};

/// First rows of the blocks that are checked: start, somewhere in the middle (no multiple of a tile), end.
std::array<std::int64_t, 3> block_starts(std::int64_t count) {
  const std::int64_t last = std::max<std::int64_t>(count - kBlock, 0);
  return {0, last * 5 / 9, last};
}

/// Rows of `width` neighbours, one per k. A small copy from a GPU costs about 5 us, a large one moves about 3 GB/s at
/// worst; memory of a CPU is the host's.
std::vector<std::byte> strided_bytes(Operand& operand, std::int64_t first, std::int64_t width, Device& device,
                                     Stream& stream) {
  const std::int64_t size = size_of(operand.dtype), row = operand.count * size, piece = width * size;
  const bool is_on_host = device.facts().kind == DeviceKind::Cpu;
  const bool is_whole_quicker = !is_on_host && double(operand.bytes().count) / 3e9 < double(operand.k) * 5e-6;
  if (operand.whole.empty() && is_whole_quicker)
    operand.whole = HostView(device, stream).bytes(operand.data, operand.bytes());
  const std::byte* const on_host = is_on_host ? operand.data : operand.whole.empty() ? nullptr : operand.whole.data();
  std::vector<std::byte> result(std::size_t(operand.k * piece));
  for (std::int64_t i = 0; i < operand.k; ++i) {
    const std::int64_t from = i * row + first * size;
    if (on_host)
      std::copy_n(on_host + from, piece, result.data() + i * piece);
    else
      device.copy(result.data() + i * piece, operand.data + from, {piece}, CopyKind::DeviceToHost, stream);
  }
  stream.synchronise();
  return result;
}

/// [width][k]
std::vector<double> block_of(Operand& operand, std::int64_t first, std::int64_t width, Device& device, Stream& stream) {
  if (operand.is_contiguous)
    return HostView(device, stream).numbers(operand.data, operand.dtype, first * operand.k, width * operand.k);
  const auto raw = strided_bytes(operand, first, width, device, stream);
  std::vector<double> block(std::size_t(width * operand.k));
  for (std::int64_t i = 0; i < operand.k; ++i)
    for (std::int64_t j = 0; j < width; ++j)
      block[std::size_t(j * operand.k + i)] =
          number_at(raw.data() + (i * width + j) * size_of(operand.dtype), operand.dtype);
  return block;
}

/// Relative to the sum of |a b|. Sums in fp32 lose like a random walk of k roundings, with room for other orders; tf32
/// also rounds the operands to 11 bits (2^-11 each), and fp8 units keep about 14 bits of a sum (Hopper).
double sum_error(GemmType type, std::int64_t k) {
  const double accumulation = 8 * 0x1p-24 * std::sqrt(double(k));
  if (type == GemmType::TF32) return accumulation + 0x1p-10;
  return type == GemmType::F8 ? accumulation + 0x1p-12 : accumulation;
}

/// One problem of a batch.
class ProductCheck {
 public:
  ProductCheck(const GemmProblem& problem, const void* a, const void* b, const void* c, Device& device, Stream& stream)
      : problem_(problem),
        device_(device),
        stream_(stream),
        c_(c) {
    const Dtype dtype = operand_dtype(problem.type);
    const auto bytes_at = [](const void* data) { return static_cast<const std::byte*>(data); };
    a_ = {bytes_at(a), dtype, problem.m, problem.k, problem.layout != GemmLayout::WeightGradient};
    b_ = {bytes_at(b), dtype, problem.n, problem.k, problem.layout == GemmLayout::Forward};
  }

  void run() {
    for (const std::int64_t row : block_starts(problem_.m)) {
      const std::int64_t height = std::min(kBlock, problem_.m - row);
      const auto a = block_of(a_, row, height, device_, stream_);
      for (const std::int64_t column : block_starts(problem_.n)) {
        const auto b = block_of(b_, column, std::min(kBlock, problem_.n - column), device_, stream_);
        for (std::int64_t i = 0; i < height; ++i) check_row(a.data() + i * problem_.k, b, row + i, column);
      }
    }
  }

 private:
  void check_row(const double* a, const std::vector<double>& b, std::int64_t row, std::int64_t column) {
    const std::int64_t k = problem_.k, width = std::ssize(b) / k, place = row * problem_.n + column;
    const auto got = HostView(device_, stream_).numbers(c_, problem_.output, place, width);
    for (std::int64_t j = 0; j < width; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double product = a[i] * b[std::size_t(j * k + i)];
        sum += product;
        magnitude += std::abs(product);
      }
      const double tolerance =
          sum_error(problem_.type, k) * magnitude + 2 * rounding_error(problem_.output) * std::abs(sum);
      expect_near(got[std::size_t(j)], sum, tolerance, "product", place + j);
    }
  }

  GemmProblem problem_;
  Device& device_;
  Stream& stream_;
  const void* c_;
  Operand a_{}, b_{};
};

/// One product with its operands of the last call, where a step finds them: activations that the op before wrote are in
/// a cache as far as they fit, weights and what forward kept come from memory; an input's gradient is written where
/// another was read, other results to where nobody has been for long. What an adapter multiplies is added to what the
/// layer's own product has just written.
class Product {
 public:
  Product(const GemmProblem& problem, Device& device, OperandPools& pools, Stream& stream)
      : problem_(problem),
        device_(device),
        pools_(pools),
        stream_(stream),
        dtype_(operand_dtype(problem.type)) {
    const bool is_gradient = problem.layout == GemmLayout::WeightGradient;
    adds_ = problem.k <= kThinGemm && problem.batch == 1 && !is_gradient && problem.type != GemmType::F8;
    place();  // pools grow before anything is timed
  }

  void run() {
    place();
    device_.gemm(problem_, a_, b_, c_, stream_);
  }
  std::function<void()> hand_over() {
    const auto first = pools_.hand_over(pools_.fresh(dtype_, written(), stream_), written(), stream_);
    if (!is_result_fresh()) return first;
    const auto second = pools_.hand_over(fresh_result(), problem_.c_bytes(), stream_);
    if (!first || !second) return first ? first : second;
    return [first, second] { first(), second(); };
  }
  /// Checks the one call made before, which added to nothing.
  void check() {
    const auto at = [&](const void* data, Bytes all, std::int64_t i) {
      return static_cast<const std::byte*>(data) + all.count / problem_.batch * i;
    };
    for (const std::int64_t i : {std::int64_t(0), problem_.batch - 1})
      ProductCheck(problem_, at(a_, problem_.a_bytes(), i), at(b_, problem_.b_bytes(), i),
                   at(c_, problem_.c_bytes(), i), device_, stream_)
          .run();
    problem_.accumulates = adds_;
  }

 private:
  Bytes written() const { return problem_.a_bytes(); }  // just now: x, or dy
  Bytes kept() const { return problem_.b_bytes(); }     // the weight, or x of a weight's gradient
  bool is_result_fresh() const { return adds_ || problem_.layout == GemmLayout::InputGradient; }
  void* fresh_result() { return pools_.fresh_results(problem_.c_bytes(), stream_); }

  void place() {
    const Bytes both =
        aligned(written()) + kept();  // in one window where neither has a place of its own: they must not meet
    const bool is_fresh = pools_.keeps_fresh(written());
    a_ = is_fresh ? pools_.fresh(dtype_, written(), stream_) : pools_.random(dtype_, both, stream_).next(both);
    b_ = is_fresh ? pools_.random(dtype_, kept(), stream_).next(kept())
                  : static_cast<const std::byte*>(a_) + aligned(written()).count;
    c_ = is_result_fresh() ? fresh_result() : pools_.results(problem_.c_bytes(), stream_).next(problem_.c_bytes());
  }

  GemmProblem problem_;
  Device& device_;
  OperandPools& pools_;
  Stream& stream_;
  Dtype dtype_;
  bool adds_ = false;
  const void *a_{}, *b_{};
  void* c_{};
};

}  // namespace

Workload gemm_workload(const Probe& probe, ProbeBench& bench, Stream& stream) {
  const auto product = std::make_shared<Product>(probe.product(), bench.device, pools_of(bench), stream);
  return {[product] { product->run(); }, [product] { product->check(); }, product->hand_over()};
}

}  // namespace gpuplan
