// Gradients of attention without a matrix of scores in memory, after FlashAttention-2 (Dao 2023). With weights p =
// exp(score - lse) and dp = dout v^T, ds = p (dp - delta) where delta = rowsum(dout out); then dv = p^T dout, dq = ds k
// / sqrt(d), dk = ds^T q / sqrt(d).
//
// Three kernels: delta; dk and dv, a block per rows of keys, which goes through the queries of all heads that share
// them; dq, a block per rows of queries, which goes through the keys. So scores are computed twice, and every sum has
// one owner and one order: no atomics, and the same bits every time.
#include "device/cuda/attention_launch.cuh"
#include "device/cuda/key_gradients.cuh"
#include "device/cuda/query_gradients.cuh"
#include "device/cuda/sequence_attention.h"

namespace gpuplan::cuda {
namespace {

// --- delta ----------------------------------------------------------------------------------------------------------

constexpr int kDeltaThreads = 256, kDeltaRows = kDeltaThreads / 32;

/// delta [batch, heads, seq] of dout and out [batch, seq, heads, head_size]: a warp per row.
template <class T>
__global__ void __launch_bounds__(kDeltaThreads)
    delta_kernel(AttentionView view, std::int64_t num_rows, const T* dout, const T* out, float* delta) {
  const std::int64_t row = std::int64_t(blockIdx.x) * kDeltaRows + threadIdx.x / 32;
  if (row >= num_rows) return;
  const std::int64_t head = row % view.heads, query = row / view.heads % view.queries,
                     sequence = row / view.heads / view.queries;
  float sum = 0;
  for (int at = int(threadIdx.x % 32) * kEight; at < view.head_size; at += 32 * kEight) {
    const int size = view.head_size - at < kEight ? view.head_size - at : kEight;
    const bool is_whole = view.is_aligned && size == kEight;
    float a[kEight] = {}, b[kEight] = {};
    load(a, dout + row * view.head_size + at, size, is_whole);
    load(b, out + row * view.head_size + at, size, is_whole);
#pragma unroll
    for (int i = 0; i < kEight; ++i) sum += a[i] * b[i];
  }
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lane);
  if (threadIdx.x % 32 == 0) delta[(sequence * view.heads + head) * view.queries + query] = sum;
}

// --- dk and dv, dq --------------------------------------------------------------------------------------------------

template <class Tiles, class T = typename Tiles::Number>
__global__ void __launch_bounds__(Tiles::kThreads) key_gradient_kernel(AttentionView view, Inputs<T> in, T* dk, T* dv) {
  extern __shared__ uint4 shared[];
  __shared__ QueryNumbers<Tiles> numbers;
  if constexpr (std::is_same_v<T, float> || kHasTensorCores<T>)
    key_gradients<Tiles>(view, in, dk, dv, reinterpret_cast<T*>(shared), numbers);
}

template <class Tiles, class T = typename Tiles::Number>
__global__ void __launch_bounds__(Tiles::kThreads) query_gradient_kernel(AttentionView view, Inputs<T> in, T* dq) {
  extern __shared__ uint4 shared[];
  if constexpr (std::is_same_v<T, float> || kHasTensorCores<T>)
    query_gradients<Tiles>(view, in, dq, reinterpret_cast<T*>(shared));
}

// --- launchers ------------------------------------------------------------------------------------------------------

/// What the kernels write; `delta` is scratch memory.
template <class T>
struct Outputs {
  T *dq, *dk, *dv;
  float* delta;
};

template <class Tiles, class T>
cudaError_t launch_tiled(const SequenceAttention& s, const Inputs<T>& in, const T* out, const Outputs<T>& to,
                         cudaStream_t stream) {
  constexpr int kThreads = Tiles::kThreads, kBytes = Tiles::kBytes, kParts = Tiles::kHead / kSumColumns<Tiles::kHead>;
  if (const auto status = allow_shared_memory(&key_gradient_kernel<Tiles>, kBytes); status != cudaSuccess)
    return status;
  if (const auto status = allow_shared_memory(&query_gradient_kernel<Tiles>, kBytes); status != cudaSuccess)
    return status;
  const AttentionView view =
      view_of(flash_shape(s), sizeof(T), are_aligned(in.q, in.k, in.v, in.dout, out, to.dq, to.dk, to.dv));
  const std::int64_t num_rows = s.batch * s.seq * s.heads;
  const unsigned delta_blocks = num_row_blocks(num_rows, kDeltaRows, 1);
  const unsigned key_blocks = num_row_blocks(s.seq, Tiles::kBlockRows, s.batch * s.kv_heads * kParts);
  const unsigned query_blocks = num_row_blocks(s.seq, Tiles::kBlockRows, s.batch * s.heads);
  delta_kernel<T><<<delta_blocks, kDeltaThreads, 0, stream>>>(view, num_rows, in.dout, out, to.delta);
  key_gradient_kernel<Tiles><<<key_blocks, kThreads, kBytes, stream>>>(view, in, to.dk, to.dv);
  query_gradient_kernel<Tiles><<<query_blocks, kThreads, kBytes, stream>>>(view, in, to.dq);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_backward(const SequenceAttention& s, const Inputs<T>& in, const T* out, const Outputs<T>& to,
                            cudaStream_t stream) {
  if (s.batch * s.heads * s.seq == 0) return cudaSuccess;
  if (!has_instructions<T>()) return cudaErrorInvalidValue;
  return with_padded_head(int(s.head_size), [&]<int kHead>(std::integral_constant<int, kHead>) {
    return launch_tiled<Tiling<T, kHead, 2>>(s, in, out, to, stream);
  });
}

}  // namespace

cudaError_t launch_sequence_attention_backward(const SequenceAttention& s, const void* dout, const void* q,
                                               const void* k, const void* v, const void* out, const float* lse,
                                               void* dq, void* dk, void* dv, float* scratch, cudaStream_t stream) {
  return with_training_type(s.dtype, [&]<class T>(T*) {
    const auto in = [](const void* numbers) { return static_cast<const T*>(numbers); };
    return launch_backward<T>(s, {in(q), in(k), in(v), in(dout), lse, scratch}, in(out),
                              {static_cast<T*>(dq), static_cast<T*>(dk), static_cast<T*>(dv), scratch}, stream);
  });
}

}  // namespace gpuplan::cuda
