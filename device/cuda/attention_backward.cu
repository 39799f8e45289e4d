// Gradients of attention without a matrix of scores in memory, after FlashAttention-2 (Dao 2023). With weights p =
// exp(score - lse) and dp = dout v^T, ds = p (dp - delta) where delta = rowsum(dout out); then dv = p^T dout, dq = ds k
// / sqrt(d), dk = ds^T q / sqrt(d).
//
// Three kernels: delta; dk and dv, a block per rows of keys, which goes through the queries of all heads that share
// them; dq, a block per rows of queries, which goes through the keys. So scores are computed twice, and every sum has
// one owner and one order: no atomics, and the same bits every time.
#include "device/cuda/attention_gradients.cuh"

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
  const std::int64_t head = row % view.heads, query = row / view.heads % view.seq,
                     sequence = row / view.heads / view.seq;
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
  if (threadIdx.x % 32 == 0) delta[(sequence * view.heads + head) * view.seq + query] = sum;
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

template <class Tiles, class T = typename Tiles::Number>
cudaError_t launch_tiled(const kernels::AttentionBackward& k, cudaStream_t stream) {
  constexpr int kThreads = Tiles::kThreads, kBytes = Tiles::kBytes, kParts = Tiles::kHead / kSumColumns<Tiles::kHead>;
  if (const auto status = allow_shared_memory(&key_gradient_kernel<Tiles>, kBytes); status != cudaSuccess)
    return status;
  if (const auto status = allow_shared_memory(&query_gradient_kernel<Tiles>, kBytes); status != cudaSuccess)
    return status;
  const AttentionShape& s = k.shape;
  const auto read = [](const void* numbers) { return static_cast<const T*>(numbers); };
  T *const dq = static_cast<T*>(k.dq), *const dk = static_cast<T*>(k.dk), *const dv = static_cast<T*>(k.dv);
  float* const delta = k.scratch;
  const T* const out = read(k.out);
  const Inputs<T> in{read(k.q), read(k.k), read(k.v), read(k.dout), k.lse, delta};
  const AttentionView view = view_of(s, sizeof(T), are_aligned(in.q, in.k, in.v, in.dout, out, dq, dk, dv));
  const std::int64_t num_rows = s.batch * s.seq * s.heads;
  const unsigned delta_blocks = num_row_blocks(num_rows, kDeltaRows, 1);
  const unsigned key_blocks = num_row_blocks(s.seq, Tiles::kBlockRows, s.batch * s.kv_heads * kParts);
  const unsigned query_blocks = num_row_blocks(s.seq, Tiles::kBlockRows, s.batch * s.heads);
  delta_kernel<T><<<delta_blocks, kDeltaThreads, 0, stream>>>(view, num_rows, in.dout, out, delta);
  key_gradient_kernel<Tiles><<<key_blocks, kThreads, kBytes, stream>>>(view, in, dk, dv);
  query_gradient_kernel<Tiles><<<query_blocks, kThreads, kBytes, stream>>>(view, in, dq);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_typed(const kernels::AttentionBackward& k, cudaStream_t stream) {
  if (!has_instructions<T>()) return cudaErrorInvalidValue;
  return with_padded_head(k.shape.head_size, [&]<int kHead>(std::integral_constant<int, kHead>) {
    return launch_tiled<Tiling<T, kHead, 2>>(k, stream);
  });
}

}  // namespace

cudaError_t launch(const kernels::AttentionBackward& k, LaunchStream& on) {
  if (k.shape.elements() == 0) return cudaSuccess;
  if (k.shape.dtype == Dtype::F32) return launch_typed<float>(k, on.native);
  return k.shape.dtype == Dtype::BF16 ? launch_typed<Bf16>(k, on.native) : cudaErrorInvalidValue;
}

}  // namespace gpuplan::cuda
