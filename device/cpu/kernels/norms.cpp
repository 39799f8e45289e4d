// RMSNorm and its gradients.
#include <cmath>

#include "device/cpu/kernels/numbers.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

template <class T>
GPUPLAN_INLINE float sum_of_squares(const T* x, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += load(x[i]) * load(x[i]);
  return sum;
}

template <class T, class W>
GPUPLAN_INLINE void normalise(T* y, const T* x, const W* weight, std::int64_t hidden, float epsilon) {
  const float factor = 1.0F / sqrtf(sum_of_squares(x, hidden) / float(hidden) + epsilon);
#pragma omp simd
  for (std::int64_t i = 0; i < hidden; ++i) store(y[i], load(x[i]) * factor * load(weight[i]));
}

template <class T, class W>
GPUPLAN_INLINE void normalise_rows(T* y, const T* x, const W* weight, std::int64_t rows, std::int64_t hidden,
                                   float epsilon) {
#pragma omp parallel for schedule(static) if (rows * hidden > kAlone)
  for (std::int64_t r = 0; r < rows; ++r) normalise(y + r * hidden, x + r * hidden, weight, hidden, epsilon);
}

template <class T, class W>
GPUPLAN_INLINE float sum_of_products(const T* x, const T* y, const W* weight, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += load(x[i]) * load(y[i]) * load(weight[i]);
  return sum;
}

/// One row. With r = 1 / sqrt(mean(x^2) + epsilon) and g = dy weight:
///   dx = residual + r g - x r^3 mean(g x),   dweight = the sum over rows of dy x r, added to `sums`.
/// `residual` and `sums` may be null.
template <class T, class W>
GPUPLAN_INLINE void backward_row(T* dx, const T* residual, float* sums, const T* dy, const T* x, const W* weight,
                                 std::int64_t hidden, float epsilon) {
  const float r = 1.0F / sqrtf(sum_of_squares(x, hidden) / float(hidden) + epsilon);
  const float pull = r * r * r * (sum_of_products(x, dy, weight, hidden) / float(hidden));
  if (sums)
#pragma omp simd
    for (std::int64_t i = 0; i < hidden; ++i) sums[i] += load(dy[i]) * load(x[i]) * r;
  if (residual)
#pragma omp simd
    for (std::int64_t i = 0; i < hidden; ++i)
      store(dx[i], load(residual[i]) + (r * load(dy[i]) * load(weight[i]) - load(x[i]) * pull));
  else
#pragma omp simd
    for (std::int64_t i = 0; i < hidden; ++i) store(dx[i], r * load(dy[i]) * load(weight[i]) - load(x[i]) * pull);
}

/// Rows in parts, each with its own sums for the weight; as many parts as threads may want, by the number of rows
/// alone.
template <class T, class W, class G>
void backward_rows(T* dx, const T* residual, G* weight_gradient, const T* dy, const T* x, const W* weight,
                   std::int64_t rows, std::int64_t hidden, float epsilon) {
  constexpr std::int64_t kParts = 32, kLeastRows = 16;
  const std::int64_t wanted = ceil_div(rows, kLeastRows), parts = wanted < kParts ? wanted : kParts;
  const Workspace workspace(weight_gradient ? parts * hidden : 0);
  float* const sums = weight_gradient ? workspace.data() : nullptr;
#pragma omp parallel for schedule(static) if (rows * hidden > kAlone)
  for (std::int64_t p = 0; p < parts; ++p) {
    float* const part = sums ? sums + p * hidden : nullptr;
    for (std::int64_t i = 0; part && i < hidden; ++i) part[i] = 0;
    for (std::int64_t r = rows * p / parts; r < rows * (p + 1) / parts; ++r)
      backward_row(dx + r * hidden, residual ? residual + r * hidden : nullptr, part, dy + r * hidden, x + r * hidden,
                   weight, hidden, epsilon);
  }
  for (std::int64_t p = 1; sums && p < parts; ++p)
    for (std::int64_t i = 0; i < hidden; ++i) sums[i] += sums[p * hidden + i];
  for (std::int64_t i = 0; sums && i < hidden; ++i) store(weight_gradient[i], load(weight_gradient[i]) + sums[i]);
}

}  // namespace

void run(const kernels::RmsNorm& k) {
  const std::int64_t rows = k.rows, hidden = k.hidden;
  const float epsilon = k.epsilon;
  if (k.y.dtype == Dtype::F16)
    return normalise_rows(as<F16>(k.y), as<F16>(k.x), as<F16>(k.weight), rows, hidden, epsilon);
  typed([=]<class T>(T* y, auto* weight) { normalise_rows(y, as<T>(k.x), weight, rows, hidden, epsilon); }, k.y,
        k.weight);
}

void run(const kernels::RmsNormBackward& k) {
  typed(
      [&]<class T>(T* dx, auto* weight_gradient, auto* weight) {
        backward_rows(dx, static_cast<const T*>(k.residual), weight_gradient, as<T>(k.dy), as<T>(k.x), weight, k.rows,
                      k.hidden, k.epsilon);
      },
      k.dx, k.weight_gradient, k.weight);
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
