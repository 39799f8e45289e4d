// RMSNorm and its gradients. A block has a row, or each of its warps one where rows are short (norms of heads).
#include "device/cuda/launch.h"
#include "device/cuda/threads.cuh"

namespace gpuplan::cuda {
namespace {

template <class Team, class T, class W>
__global__ void __launch_bounds__(kRowThreads) rms_norm_kernel(T* y, const T* x, const W* weight, std::int64_t rows,
                                                               std::int64_t hidden, float epsilon, bool is_aligned) {
  if (Team::row() >= rows) return;
  const std::int64_t row = Team::row() * hidden;
  float squares = 0;
  for (std::int64_t at = Team::member() * kEight; at < hidden; at += Team::kSize * kEight) {
    const int size = size_at(at, hidden);
    float some[kEight] = {};
    load(some, x + row + at, size, is_aligned && size == kEight);
#pragma unroll
    for (int i = 0; i < kEight; ++i) squares += some[i] * some[i];
  }
  const float scale = 1.0F / sqrtf(Team::sum(squares) / float(hidden) + epsilon);
  for (std::int64_t at = Team::member() * kEight; at < hidden; at += Team::kSize * kEight) {
    const int size = size_at(at, hidden);
    const bool is_whole = is_aligned && size == kEight;
    float some[kEight] = {}, factor[kEight] = {};
    load(some, x + row + at, size, is_whole);
    load(factor, weight + at, size, is_whole);
#pragma unroll
    for (int i = 0; i < kEight; ++i) some[i] *= scale * factor[i];
    store(y + row + at, some, size, is_whole);
  }
}

/// Gradient of RMSNorm. With r = 1 / sqrt(mean(x^2) + epsilon) and g = dy weight: dx = residual + r g - x r^3 mean(g
/// x). r goes to `factors` [rows]. `residual` and `factors` may be null.
template <class Team, class T, class W>
__global__ void __launch_bounds__(kRowThreads)
    rms_norm_backward_kernel(T* dx, const T* residual, float* factors, const T* dy, const T* x, const W* weight,
                             std::int64_t rows, std::int64_t hidden, float epsilon, bool is_aligned) {
  if (Team::row() >= rows) return;
  const std::int64_t row = Team::row() * hidden;
  float squares = 0, products = 0;
  for (std::int64_t at = Team::member() * kEight; at < hidden; at += Team::kSize * kEight) {
    const int size = size_at(at, hidden);
    const bool is_whole = is_aligned && size == kEight;
    float from[kEight] = {}, down[kEight] = {}, w[kEight] = {};
    load(from, x + row + at, size, is_whole);
    load(down, dy + row + at, size, is_whole);
    load(w, weight + at, size, is_whole);
#pragma unroll
    for (int i = 0; i < kEight; ++i) squares += from[i] * from[i], products += from[i] * down[i] * w[i];
  }
  const float r = 1.0F / sqrtf(Team::sum(squares) / float(hidden) + epsilon);
  Team::wait();
  const float pull = r * r * r * (Team::sum(products) / float(hidden));
  if (factors && Team::member() == 0) factors[Team::row()] = r;
  for (std::int64_t at = Team::member() * kEight; at < hidden; at += Team::kSize * kEight) {
    const int size = size_at(at, hidden);
    const bool is_whole = is_aligned && size == kEight;
    float from[kEight] = {}, down[kEight] = {}, w[kEight] = {}, sum[kEight] = {};
    load(from, x + row + at, size, is_whole);
    load(down, dy + row + at, size, is_whole);
    load(w, weight + at, size, is_whole);
    if (residual) load(sum, residual + row + at, size, is_whole);
#pragma unroll
    for (int i = 0; i < kEight; ++i) sum[i] += r * down[i] * w[i] - from[i] * pull;
    store(dx + row + at, sum, size, is_whole);
  }
}

constexpr std::int64_t kMostOfWarp = 1024;  // elements of a row: four vectors per thread

unsigned blocks_of_warps(std::int64_t rows) { return unsigned((rows + WarpPerRow::kRows - 1) / WarpPerRow::kRows); }

/// `factors` [rows] may be null.
cudaError_t launch_rows_backward(const kernels::RmsNormBackward& k, float* factors, cudaStream_t stream) {
  return typed(
      [=, rows = k.rows, hidden = k.hidden, epsilon = k.epsilon]<class T, class W>(T* dx, const W* weight) {
        const T *const residual = static_cast<const T*>(k.residual), *const dy = static_cast<const T*>(k.dy.data),
                       *const x = static_cast<const T*>(k.x.data);
        const bool is_aligned = are_aligned(dx, residual, dy, x, weight) && hidden % kEight == 0;
        if (hidden <= kMostOfWarp)
          rms_norm_backward_kernel<WarpPerRow><<<blocks_of_warps(rows), kRowThreads, 0, stream>>>(
              dx, residual, factors, dy, x, weight, rows, hidden, epsilon, is_aligned);
        else
          rms_norm_backward_kernel<BlockPerRow><<<unsigned(rows), kRowThreads, 0, stream>>>(
              dx, residual, factors, dy, x, weight, rows, hidden, epsilon, is_aligned);
        return cudaGetLastError();
      },
      k.dx, k.weight);
}

/// The same, some rows further on.
kernels::RmsNormBackward behind(kernels::RmsNormBackward k, std::int64_t rows) {
  const auto skip = [&](const void* first) -> const std::byte* {
    return first ? static_cast<const std::byte*>(first) + bytes_of(rows * k.hidden, k.dx.dtype).count : nullptr;
  };
  k.dx.data = const_cast<std::byte*>(skip(k.dx.data));
  k.residual = skip(k.residual), k.dy.data = skip(k.dy.data), k.x.data = skip(k.x.data);
  k.rows -= rows;
  return k;
}

}  // namespace

cudaError_t launch(const kernels::RmsNorm& k, LaunchStream& on) {
  const Dtype dtype = common_dtype(k.y, k.x);
  if (k.rows == 0 || k.hidden == 0) return cudaSuccess;
  const auto launch_typed = [in = k.x.data, rows = k.rows, hidden = k.hidden, epsilon = k.epsilon,
                             stream = on.native]<class T, class W>(T* y, const W* weight) {
    const T* const x = static_cast<const T*>(in);
    const bool is_aligned = are_aligned(y, x, weight) && hidden % kEight == 0;
    const unsigned blocks = hidden <= kMostOfWarp ? blocks_of_warps(rows) : unsigned(rows);
    if (hidden <= kMostOfWarp)
      rms_norm_kernel<WarpPerRow><<<blocks, kRowThreads, 0, stream>>>(y, x, weight, rows, hidden, epsilon, is_aligned);
    else
      rms_norm_kernel<BlockPerRow><<<blocks, kRowThreads, 0, stream>>>(y, x, weight, rows, hidden, epsilon, is_aligned);
    return cudaGetLastError();
  };
  if (dtype == Dtype::F16 && k.weight.dtype == dtype)
    return launch_typed(static_cast<F16*>(k.y.data), static_cast<const F16*>(k.weight.data));
  return typed(launch_typed, k.y, k.weight);
}

/// Launches the kernel. With weight_gradient, hidden is at most kScratchFloats / 2.
cudaError_t launch(const kernels::RmsNormBackward& k, LaunchStream& on) {
  static_cast<void>(common_dtype(k.dx, k.dy, k.x));
  if (k.rows == 0 || k.hidden == 0) return cudaSuccess;
  if (!k.weight_gradient.data) return launch_rows_backward(k, nullptr, on.native);
  constexpr std::int64_t kMostRows = kScratchFloats / 2;  // whose factors leave room for parts of the weight's gradient
  float* const scratch = on.scratch();
  for (kernels::RmsNormBackward left = k; left.rows > 0; left = behind(left, kMostRows)) {
    kernels::RmsNormBackward some = left;
    some.rows = left.rows < kMostRows ? left.rows : kMostRows;
    if (const cudaError_t status = launch_rows_backward(some, scratch, on.native); status != cudaSuccess) return status;
    if (const cudaError_t status = launch_norm_weight_backward(some, scratch, on.native); status != cudaSuccess)
      return status;
  }
  return cudaSuccess;
}

}  // namespace gpuplan::cuda
