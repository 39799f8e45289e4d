// RMSNorm and its gradients. A block has a row, or each of its warps one where rows are short (norms of heads).
#include "device/cuda/kernels.h"
#include "device/cuda/row_blocks.cuh"
#include "device/cuda/training.cuh"
#include "device/cuda/training_launch.h"

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

/// With r = 1 / sqrt(mean(x^2) + epsilon) and g = dy weight:  dx = residual + r g - x r^3 mean(g x).  r goes to
/// `factors` [rows]. `residual` and `factors` may be null.
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

}  // namespace

cudaError_t launch_rms_norm(void* y, const void* x, Dtype dtype, const void* weight, Dtype weight_dtype,
                            std::int64_t rows, std::int64_t hidden, float epsilon, cudaStream_t stream) {
  if (rows == 0 || hidden == 0) return cudaSuccess;
  const auto launch = [=]<class T, class W>(T* out, const W* factors) {
    const T* const in = static_cast<const T*>(x);
    const bool is_aligned = are_aligned(out, in, factors) && hidden % kEight == 0;
    if (hidden <= kMostOfWarp)
      rms_norm_kernel<WarpPerRow>
          <<<blocks_of_warps(rows), kRowThreads, 0, stream>>>(out, in, factors, rows, hidden, epsilon, is_aligned);
    else
      rms_norm_kernel<BlockPerRow>
          <<<unsigned(rows), kRowThreads, 0, stream>>>(out, in, factors, rows, hidden, epsilon, is_aligned);
    return cudaGetLastError();
  };
  if (dtype == Dtype::F16 && weight_dtype == dtype)
    return launch(static_cast<F16*>(y), static_cast<const F16*>(weight));
  return typed(launch, Numbers{y, dtype}, ConstNumbers{weight, weight_dtype});
}

cudaError_t launch_rms_norm_backward(Dtype dtype, void* dx, const void* residual, Numbers weight_gradient,
                                     const void* dy, const void* x, ConstNumbers weight, std::int64_t rows,
                                     std::int64_t hidden, float epsilon, float* scratch, cudaStream_t stream) {
  if (rows == 0 || hidden == 0) return cudaSuccess;
  constexpr std::int64_t kMostRows = kScratchFloats / 2;  // whose factors leave room for parts of the weight's gradient
  if (weight_gradient.data && rows > kMostRows) {
    const auto behind = [&](const void* first) {
      return first ? static_cast<const std::byte*>(first) + bytes_of(kMostRows * hidden, dtype).count : nullptr;
    };
    const cudaError_t status = launch_rms_norm_backward(dtype, dx, residual, weight_gradient, dy, x, weight, kMostRows,
                                                        hidden, epsilon, scratch, stream);
    if (status != cudaSuccess) return status;
    return launch_rms_norm_backward(dtype, const_cast<std::byte*>(behind(dx)), behind(residual), weight_gradient,
                                    behind(dy), behind(x), weight, rows - kMostRows, hidden, epsilon, scratch, stream);
  }
  float* const factors = weight_gradient.data ? scratch : nullptr;
  const cudaError_t status = typed(
      [=]<class T, class W>(T* out, const W* w) {
        const T *const passed = static_cast<const T*>(residual), *const down = static_cast<const T*>(dy),
                       *const in = static_cast<const T*>(x);
        const bool is_aligned = are_aligned(out, passed, down, in, w) && hidden % kEight == 0;
        if (hidden <= kMostOfWarp)
          rms_norm_backward_kernel<WarpPerRow><<<blocks_of_warps(rows), kRowThreads, 0, stream>>>(
              out, passed, factors, down, in, w, rows, hidden, epsilon, is_aligned);
        else
          rms_norm_backward_kernel<BlockPerRow><<<unsigned(rows), kRowThreads, 0, stream>>>(
              out, passed, factors, down, in, w, rows, hidden, epsilon, is_aligned);
        return cudaGetLastError();
      },
      Numbers{dx, dtype}, weight);
  if (status != cudaSuccess || !weight_gradient.data) return status;
  return launch_norm_weight_backward(weight_gradient, dtype, dy, x, rows, hidden, scratch, stream);
}

}  // namespace gpuplan::cuda
