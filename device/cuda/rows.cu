// Softmax and loss by row: one block each, sums and maxima across its threads, then one more pass.
#include "device/cuda/launch.h"
#include "device/cuda/threads.cuh"

namespace gpuplan::cuda {
namespace {

/// The sum of exp(x - largest) over some numbers x, built up as they come.
struct LogSum {
  float largest = -INFINITY, sum = 0;
};
__device__ LogSum merged(LogSum a, LogSum b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -INFINITY) return {};
  return {largest, a.sum * __expf(a.largest - largest) + b.sum * __expf(b.largest - largest)};
}
__device__ LogSum block_log_sum(LogSum x) {
  __shared__ float largest[kNumWarps], sums[kNumWarps];
  for (int lane = kWarp / 2; lane > 0; lane /= 2)
    x = merged(x, {__shfl_xor_sync(kAll, x.largest, lane), __shfl_xor_sync(kAll, x.sum, lane)});
  if (threadIdx.x % kWarp == 0) {
    largest[threadIdx.x / kWarp] = x.largest;
    sums[threadIdx.x / kWarp] = x.sum;
  }
  __syncthreads();
  LogSum all;
  for (int warp = 0; warp < kNumWarps; ++warp) all = merged(all, {largest[warp], sums[warp]});
  return all;
}

/// Sums the first `width` numbers at `row` in one pass; all threads of the block get the result.
template <class T>
__device__ LogSum row_log_sum(const T* row, std::int64_t width, bool is_aligned) {
  LogSum mine;
  for (std::int64_t at = threadIdx.x * kEight; at < width; at += kRowThreads * kEight) {
    const int size = size_at(at, width);
    float x[kEight];
    load(x, row + at, size, is_aligned && size == kEight);
    LogSum some;
#pragma unroll
    for (int i = 0; i < kEight; ++i)
      if (i < size) some.largest = fmaxf(some.largest, x[i]);
    if (some.largest == -INFINITY) continue;
#pragma unroll
    for (int i = 0; i < kEight; ++i)
      if (i < size) some.sum += __expf(x[i] - some.largest);
    mine = merged(mine, some);
  }
  return block_log_sum(mine);
}

/// Replaces a row of logits by (softmax - one hot at `label`) x scale, or by zeros where it is ignored.
template <class T>
__device__ void replace_by_gradient(T* row, std::int64_t vocab, LogSum all, std::int64_t label, float scale,
                                    bool is_ignored, bool is_aligned) {
  const float factor = is_ignored ? 0.0F : scale / all.sum;
  for (std::int64_t at = threadIdx.x * kEight; at < vocab; at += kRowThreads * kEight) {
    const int size = size_at(at, vocab);
    const bool is_whole = is_aligned && size == kEight;
    float x[kEight] = {};
    if (!is_ignored) load(x, row + at, size, is_whole);
#pragma unroll
    for (int i = 0; i < kEight; ++i)
      x[i] = is_ignored ? 0.0F : __expf(x[i] - all.largest) * factor - (at + i == label ? scale : 0.0F);
    store(row + at, x, size, is_whole);
  }
}

/// Logits are read twice: for the log-sum-exp, and to be replaced by (softmax - one hot) x *scale_at.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_kernel(T* logits, const std::int32_t* labels, float* losses, std::int64_t vocab,
                         const float* scale_at, bool is_aligned) {
  T* const row = logits + std::int64_t(blockIdx.x) * vocab;
  const std::int32_t label = labels[blockIdx.x];
  const float scale = *scale_at;
  const bool is_ignored = label == kIgnoredLabel;
  LogSum all;
  if (!is_ignored) {
    all = row_log_sum(row, vocab, is_aligned);
    const bool is_known = label >= 0 && label < vocab;
    if (threadIdx.x == 0) losses[blockIdx.x] = is_known ? logf(all.sum) + (all.largest - to_float(row[label])) : NAN;
    __syncthreads();  // the label's logit is read before it is replaced
  } else if (threadIdx.x == 0) {
    losses[blockIdx.x] = 0;
  }
  replace_by_gradient(row, vocab, all, label, scale, is_ignored, is_aligned);
}

/// The largest logit of a row, or the sum of exp(logit - largest) where that is known.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    row_log_sum_kernel(float* out, const T* logits, const float* largest, std::int64_t vocab, bool is_aligned) {
  const LogSum all = row_log_sum(logits + std::int64_t(blockIdx.x) * vocab, vocab, is_aligned);
  if (threadIdx.x == 0) out[blockIdx.x] = largest ? all.sum * __expf(all.largest - largest[blockIdx.x]) : all.largest;
}

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    label_logit_kernel(float* right, const T* logits, const std::int32_t* labels, std::int64_t rows, std::int64_t vocab,
                       std::int64_t first) {
  const std::int64_t row = std::int64_t(blockIdx.x) * kRowThreads + threadIdx.x;
  if (row >= rows) return;
  const std::int64_t at = labels[row] - first;
  right[row] = at >= 0 && at < vocab ? to_float(logits[row * vocab + at]) : 0.0F;
}

/// The three sums hold what a row lacks of the whole vocabulary.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    shared_cross_entropy_kernel(T* logits, const float* largest, const float* right, const float* sum,
                                const std::int32_t* labels, float* losses, std::int64_t vocab, std::int64_t first,
                                std::int64_t whole, const float* scale_at, bool is_aligned) {
  T* const row = logits + std::int64_t(blockIdx.x) * vocab;
  const std::int32_t label = labels[blockIdx.x];
  const bool is_ignored = label == kIgnoredLabel, is_known = label >= 0 && label < whole;
  const float scale = *scale_at, top = largest[blockIdx.x], all = sum[blockIdx.x];
  if (threadIdx.x == 0) losses[blockIdx.x] = is_ignored ? 0.0F : is_known ? logf(all) + (top - right[blockIdx.x]) : NAN;
  replace_by_gradient(row, vocab, {top, all}, label - first, scale, is_ignored, is_aligned);
}

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    scale_rows_kernel(T* values, const float* factors, std::int64_t width, bool is_aligned) {
  T* const row = values + std::int64_t(blockIdx.x) * width;
  const float factor = factors[blockIdx.x];
  for (std::int64_t at = threadIdx.x * kEight; at < width; at += kRowThreads * kEight) {
    const int size = size_at(at, width);
    const bool is_whole = is_aligned && size == kEight;
    float x[kEight] = {};
    if (factor != 0.0F) load(x, row + at, size, is_whole);
#pragma unroll
    for (int i = 0; i < kEight; ++i) x[i] *= factor;
    store(row + at, x, size, is_whole);
  }
}

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    softmax_kernel(T* scores, std::int64_t queries, std::int64_t keys, bool is_causal, bool is_aligned) {
  T* const row = scores + std::int64_t(blockIdx.x) * keys;
  const std::int64_t query = blockIdx.x % queries, sees = query + keys - queries + 1;
  const std::int64_t visible = !is_causal || sees > keys ? keys : sees > 0 ? sees : 0;
  const LogSum all = row_log_sum(row, visible, is_aligned);
  const float factor = visible > 0 ? 1.0F / all.sum : 0.0F;
  for (std::int64_t at = threadIdx.x * kEight; at < keys; at += kRowThreads * kEight) {
    const int size = size_at(at, keys);
    const bool is_whole = is_aligned && size == kEight;
    float x[kEight] = {};
    if (at < visible) load(x, row + at, size, is_whole);
#pragma unroll
    for (int i = 0; i < kEight; ++i) x[i] = at + i < visible ? __expf(x[i] - all.largest) * factor : 0.0F;
    store(row + at, x, size, is_whole);
  }
}

}  // namespace

cudaError_t launch(const kernels::CrossEntropy& k, LaunchStream& on) {
  if (k.rows == 0 || k.vocab == 0) return cudaSuccess;
  return with_type(k.logits.dtype, [k, stream = on.native]<class T>(T*) {
    T* const logits = static_cast<T*>(k.logits.data);
    const bool is_aligned = are_aligned(logits) && k.vocab % kEight == 0;
    cross_entropy_kernel<<<unsigned(k.rows), kRowThreads, 0, stream>>>(logits, k.labels, k.losses, k.vocab, k.scale,
                                                                       is_aligned);
    return cudaGetLastError();
  });
}

static cudaError_t launch_log_sum(float* out, ConstNumbers numbers, const float* largest, std::int64_t rows,
                                  std::int64_t vocab, cudaStream_t stream) {
  if (rows == 0 || vocab == 0) return cudaSuccess;
  return with_type(numbers.dtype, [=]<class T>(T*) {
    const T* const logits = static_cast<const T*>(numbers.data);
    const bool is_aligned = are_aligned(logits) && vocab % kEight == 0;
    row_log_sum_kernel<<<unsigned(rows), kRowThreads, 0, stream>>>(out, logits, largest, vocab, is_aligned);
    return cudaGetLastError();
  });
}

cudaError_t launch(const kernels::LargestLogit& k, LaunchStream& on) {
  return launch_log_sum(k.largest, k.logits, nullptr, k.rows, k.vocab, on.native);
}

cudaError_t launch(const kernels::SumOfExponentials& k, LaunchStream& on) {
  return launch_log_sum(k.sum, k.logits, k.largest, k.rows, k.vocab, on.native);
}

cudaError_t launch(const kernels::LabelLogit& k, LaunchStream& on) {
  if (k.rows == 0) return cudaSuccess;
  return with_type(k.logits.dtype, [k, stream = on.native]<class T>(T*) {
    const auto blocks = unsigned((k.rows + kRowThreads - 1) / kRowThreads);
    label_logit_kernel<<<blocks, kRowThreads, 0, stream>>>(k.right, static_cast<const T*>(k.logits.data), k.labels,
                                                           k.rows, k.vocab, k.first);
    return cudaGetLastError();
  });
}

cudaError_t launch(const kernels::SharedCrossEntropy& k, LaunchStream& on) {
  if (k.rows == 0 || k.vocab == 0) return cudaSuccess;
  return with_type(k.logits.dtype, [k, stream = on.native]<class T>(T*) {
    T* const logits = static_cast<T*>(k.logits.data);
    const bool is_aligned = are_aligned(logits) && k.vocab % kEight == 0;
    shared_cross_entropy_kernel<<<unsigned(k.rows), kRowThreads, 0, stream>>>(
        logits, k.largest, k.right, k.sum, k.labels, k.losses, k.vocab, k.first, k.whole, k.scale, is_aligned);
    return cudaGetLastError();
  });
}

cudaError_t launch(const kernels::ScaleRows& k, LaunchStream& on) {
  if (k.rows == 0 || k.width == 0) return cudaSuccess;
  return with_type(k.x.dtype, [k, stream = on.native]<class T>(T*) {
    T* const x = static_cast<T*>(k.x.data);
    const bool is_aligned = are_aligned(x) && k.width % kEight == 0;
    scale_rows_kernel<<<unsigned(k.rows), kRowThreads, 0, stream>>>(x, k.factors, k.width, is_aligned);
    return cudaGetLastError();
  });
}

cudaError_t launch(const kernels::Softmax& k, LaunchStream& on) {
  const std::int64_t rows = k.blocks * k.queries;
  if (rows * k.keys == 0) return cudaSuccess;
  return with_type(k.scores.dtype, [k, rows, stream = on.native]<class T>(T*) {
    T* const scores = static_cast<T*>(k.scores.data);
    const bool is_aligned = are_aligned(scores) && k.keys % kEight == 0;
    softmax_kernel<<<unsigned(rows), kRowThreads, 0, stream>>>(scores, k.queries, k.keys, k.is_causal, is_aligned);
    return cudaGetLastError();
  });
}

}  // namespace gpuplan::cuda
