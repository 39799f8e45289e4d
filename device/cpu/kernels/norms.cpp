// RMSNorm and its gradients.
#include <cmath>

#include "device/cpu/kernels/list.h"
#include "device/cpu/kernels/typed.h"
#include "device/cpu/kernels/workspace.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

template <class T, class W>
GPUPLAN_INLINE void normalise(T* y, const T* x, const W* weight, std::int64_t hidden, float epsilon) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < hidden; ++i) sum += load(x[i]) * load(x[i]);
  const float factor = 1.0F / sqrtf(sum / float(hidden) + epsilon);
#pragma omp simd
  for (std::int64_t i = 0; i < hidden; ++i) store(y[i], load(x[i]) * factor * load(weight[i]));
}

template <class T, class W>
GPUPLAN_INLINE void normalise_rows(T* y, const T* x, const W* weight, std::int64_t rows, std::int64_t hidden, float epsilon) {
#pragma omp parallel for schedule(static) if (rows * hidden > kAlone)
  for (std::int64_t r = 0; r < rows; ++r) normalise(y + r * hidden, x + r * hidden, weight, hidden, epsilon);
}

/// With r = 1 / sqrt(mean(x^2) + epsilon) and g = dy weight:  dx = residual + r g - x r^3 mean(g x),  dweight = sum over rows of dy x r.
template <class T, class W>
struct Backward {
  T* dx;
  const T *residual, *dy, *x;
  const W* weight;
  std::int64_t hidden;
  float epsilon;

  /// Adds to `sums` [hidden] unless null.
  GPUPLAN_INLINE void row(std::int64_t begin, float* sums) const {
    const T *const up = dy + begin, *const in = x + begin, *const beside = residual ? residual + begin : nullptr;
    float squares = 0, products = 0;
#pragma omp simd reduction(+ : squares, products)
    for (std::int64_t i = 0; i < hidden; ++i) {
      const float value = load(in[i]);
      squares += value * value;
      products += value * load(up[i]) * load(weight[i]);
    }
    const float r = 1.0F / sqrtf(squares / float(hidden) + epsilon), pull = r * r * r * (products / float(hidden));
    if (sums)
#pragma omp simd
      for (std::int64_t i = 0; i < hidden; ++i) sums[i] += load(up[i]) * load(in[i]) * r;
    T* const to = dx + begin;
    if (beside)
#pragma omp simd
      for (std::int64_t i = 0; i < hidden; ++i)
        store(to[i], load(beside[i]) + (r * load(up[i]) * load(weight[i]) - load(in[i]) * pull));
    else
#pragma omp simd
      for (std::int64_t i = 0; i < hidden; ++i) store(to[i], r * load(up[i]) * load(weight[i]) - load(in[i]) * pull);
  }
};

/// Rows in parts, each with its own sums for the weight; as many parts as threads may want, by the number of rows alone.
template <class T, class W, class G>
void backward_rows(const Backward<T, W>& backward, G* weight_gradient, std::int64_t rows) {
  constexpr std::int64_t kParts = 32, kLeastRows = 16;
  const std::int64_t hidden = backward.hidden, wanted = ceil_div(rows, kLeastRows), parts = wanted < kParts ? wanted : kParts;
  const Workspace workspace(weight_gradient ? parts * hidden : 0);
  float* const sums = weight_gradient ? workspace.data() : nullptr;
#pragma omp parallel for schedule(static) if (rows * hidden > kAlone)
  for (std::int64_t p = 0; p < parts; ++p) {
    float* const part = sums ? sums + p * hidden : nullptr;
    for (std::int64_t i = 0; part && i < hidden; ++i) part[i] = 0;
    for (std::int64_t r = rows * p / parts; r < rows * (p + 1) / parts; ++r) backward.row(r * hidden, part);
  }
  for (std::int64_t p = 1; sums && p < parts; ++p)
    for (std::int64_t i = 0; i < hidden; ++i) sums[i] += sums[p * hidden + i];
  for (std::int64_t i = 0; sums && i < hidden; ++i) store(weight_gradient[i], load(weight_gradient[i]) + sums[i]);
}

}  // namespace

void rms_norm(void* y, const void* x, const void* weight, std::int64_t rows, std::int64_t hidden, float epsilon, Dtype dtype) {
  with_type(dtype, [=](auto type) {
    using T = decltype(type);
    normalise_rows(static_cast<T*>(y), static_cast<const T*>(x), static_cast<const T*>(weight), rows, hidden, epsilon);
  });
}

void rms_norm_forward(Numbers y, ConstNumbers x, ConstNumbers weight, std::int64_t rows, std::int64_t hidden, float epsilon) {
  typed([=]<class T>(T* to, auto* factors) { normalise_rows(to, as<T>(x), factors, rows, hidden, epsilon); }, y, weight);
}

void rms_norm_backward(Numbers dx, const void* residual, Numbers weight_gradient, ConstNumbers dy, ConstNumbers x,
                       ConstNumbers weight, std::int64_t rows, std::int64_t hidden, float epsilon) {
  typed([=]<class T, class W>(T* to, auto* gradient, const W* factors) {
    const Backward<T, W> backward{to, static_cast<const T*>(residual), as<T>(dy), as<T>(x), factors, hidden, epsilon};
    backward_rows(backward, gradient, rows);
  }, dx, weight_gradient, weight);
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
