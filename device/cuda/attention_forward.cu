// Attention without a matrix of scores in memory: tiles of keys, an online softmax, tiles that no query sees left out
// (Dao et al. 2022; the division of work is that of FlashAttention-2, Dao 2023). Neither wgmma nor TMA, so on Hopper
// FlashAttention-3 is faster.
#include "device/cuda/attention_products.cuh"

namespace gpuplan::cuda {
namespace {

/// The softmax of one row, of which four neighbouring lanes see a part each.
struct OnlineSoftmax {
  float largest = -INFINITY, sum = 0;  // of scores before scaling; of this lane's weights

  /// Replaces the row's scores, [2 half] and [2 half + 1] of each, by their weights 2^(score x to_log2 - the largest);
  /// what was summed up before is to be multiplied by the result.
  template <int kNum>
  __device__ float add(Sums (&scores)[kNum], int half, float to_log2) {
    float now = largest;
#pragma unroll
    for (int i = 0; i < 2 * kNum; ++i) now = fmaxf(now, scores[i / 2].x[2 * half + i % 2]);
    now = fmaxf(now, __shfl_xor_sync(0xffffffffU, now, 1));
    now = fmaxf(now, __shfl_xor_sync(0xffffffffU, now, 2));
    const float base = now == -INFINITY ? 0.0F : now * to_log2;  // nothing seen yet: all weights are 0, not NaN
    const float shrink = power_of_2(largest * to_log2 - base);
    sum *= shrink;
#pragma unroll
    for (int i = 0; i < 2 * kNum; ++i) {
      float& x = scores[i / 2].x[2 * half + i % 2];
      sum += x = power_of_2(x * to_log2 - base);
    }
    largest = now;
    return shrink;
  }
  /// Sum over the whole row.
  __device__ float total() const {
    const float two = sum + __shfl_xor_sync(0xffffffffU, sum, 1);
    return two + __shfl_xor_sync(0xffffffffU, two, 2);
  }
};

/// A warp's queries, from `first_query` on, on their way through the tiles of keys.
template <class Tiles>
struct QueryWarp {
  using T = typename Tiles::Number;
  static constexpr int kNumScores = Tiles::kTileRows / 8;

  const AttentionView& view;
  int first_query;
  KeptRows<Tiles> queries;
  float to_log2;
  Sums out[Tiles::kFragments][Tiles::kHead / 8];
  OnlineSoftmax softmax[Tiles::kFragments][2];

  __device__ QueryWarp(const AttentionView& v, int first, const T* rows)
      : view(v),
        first_query(first),
        queries(rows),
        to_log2(kLog2E * rsqrtf(float(v.head_size))) {}

  __device__ void add_keys(int first_key, const T* keys, const T* values) {
    const int last_query = first_query + Tiles::kWarpRows - 1, last_key = first_key + Tiles::kTileRows - 1;
    if (first_key > view.last_key(last_query) || last_key < view.first_key(first_query)) return;
    Sums scores[Tiles::kFragments][kNumScores];
    multiply<Tiles>(scores, queries, keys);
    const bool sees_all = last_key <= view.last_key(first_query) && first_key >= view.first_key(last_query);
#pragma unroll
    for (int i = 0; i < 2 * Tiles::kFragments; ++i) {
      const int query = query_of(i / 2, i % 2);
      if (!sees_all)
        hide(scores[i / 2], i % 2, view.first_key(query) - first_key, view.last_key(query) - first_key, -INFINITY);
      weigh(scores[i / 2], i / 2, i % 2);
    }
    add_weighted<Tiles>(out, scores, values);
  }

  /// Scores of row `half` of fragment `m` to weights, and what is summed up so far to their scale.
  __device__ void weigh(Sums (&scores)[kNumScores], int m, int half) {
    const float shrink = softmax[m][half].add(scores, half, to_log2);
#pragma unroll
    for (Sums& sums : out[m]) {
      sums.x[2 * half] *= shrink;
      sums.x[2 * half + 1] *= shrink;
    }
  }

  __device__ int query_of(int m, int half) const { return first_query + 16 * m + Lane{}.row() + 8 * half; }

  /// out and lse (null: not wanted): of the head, the first of its queries.
  __device__ void write(T* to, float* lse) const {
#pragma unroll
    for (int m = 0; m < Tiles::kFragments; ++m) {
      const int first = first_query + 16 * m;
      const float sums[2] = {softmax[m][0].total(), softmax[m][1].total()};
      const float inverse[2] = {sums[0] > 0 ? 1 / sums[0] : 0.0F, sums[1] > 0 ? 1 / sums[1] : 0.0F};
      write_rows(to + first * view.query_row, view.query_row, out[m], inverse, view.seq - first, view.head_size,
                 view.is_aligned);
      if (!lse || Lane{}.column() != 0) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (const int query = query_of(m, half); query < view.seq)
          lse[query] = (softmax[m][half].largest * to_log2 + log2f(sums[half])) / kLog2E;
    }
  }
};

template <class Tiles, class T>
__device__ void attend(const AttentionView& view, const T* q, const T* k, const T* v, T* out, float* lse, T* shared) {
  const BlockRows block(view.seq, Tiles::kBlockRows, view.heads, true);
  const int first_query = block.tile * Tiles::kBlockRows, first_row = int(threadIdx.x) / 32 * Tiles::kWarpRows;
  const std::int64_t query_offset = view.query_offset(block.sequence, block.head);
  const std::int64_t key_offset = view.key_offset(block.sequence, block.head / view.group);

  static_assert(!Tiles::kKeepsFragments);  // then the queries are waited for with the first tiles
  copy_rows<Tiles, Tiles::kBlockRows>(view, shared, q + query_offset + first_query * view.query_row, view.query_row,
                                      view.seq - first_query);
  QueryWarp<Tiles> warp(view, first_query + first_row, shared + first_row * Tiles::kRow);

  const int first_tile = view.first_key(first_query) / Tiles::kTileRows;
  const int num_tiles = view.last_key(first_query + Tiles::kBlockRows - 1) / Tiles::kTileRows + 1 - first_tile;
  const auto copy = [&](int i, T* pair) {
    const int first_key = (first_tile + i) * Tiles::kTileRows;
    const std::int64_t offset = key_offset + first_key * view.key_row;
    const int num_keys = view.seq - first_key;
    copy_rows<Tiles, Tiles::kTileRows>(view, pair, k + offset, view.key_row, num_keys);
    copy_rows<Tiles, Tiles::kTileRows>(view, pair + Tiles::kTile, v + offset, view.key_row, num_keys);
  };
  const auto work = [&](int i, const T* pair) {
    warp.add_keys((first_tile + i) * Tiles::kTileRows, pair, pair + Tiles::kTile);
  };
  for_each_pair<Tiles>(num_tiles, shared + Tiles::kPairsAt, copy, work);

  const std::int64_t lse_offset = (std::int64_t(block.sequence) * view.heads + block.head) * view.seq;
  warp.write(out + query_offset, lse ? lse + lse_offset : nullptr);
}

template <class Tiles, class T = typename Tiles::Number>
__global__ void __launch_bounds__(Tiles::kThreads)
    attention_kernel(AttentionView view, const T* q, const T* k, const T* v, T* out, float* lse) {
  extern __shared__ uint4 shared[];
  if constexpr (std::is_same_v<T, float> || kHasTensorCores<T>)
    attend<Tiles>(view, q, k, v, out, lse, reinterpret_cast<T*>(shared));
}

template <class Tiles, class T = typename Tiles::Number>
cudaError_t launch_tiled(const kernels::Attention& k, cudaStream_t stream) {
  const T *const q = static_cast<const T*>(k.q), *const keys = static_cast<const T*>(k.k),
                 *const v = static_cast<const T*>(k.v);
  T* const out = static_cast<T*>(k.out);
  const AttentionView view = view_of(k.shape, sizeof(T), are_aligned(q, keys, v, out));
  const unsigned num_blocks = num_row_blocks(k.shape.seq, Tiles::kBlockRows, k.shape.batch * k.shape.heads);
  constexpr int kThreads = Tiles::kThreads, kBytes = Tiles::kBytes;
  if (const auto status = allow_shared_memory(&attention_kernel<Tiles>, kBytes); status != cudaSuccess) return status;
  attention_kernel<Tiles><<<num_blocks, kThreads, kBytes, stream>>>(view, q, keys, v, out, k.lse);
  return cudaGetLastError();
}

template <class T, int kHead>
cudaError_t launch_sized(const kernels::Attention& k, cudaStream_t stream) {
  if constexpr (std::is_same_v<T, F16> && kHead == 128)
    if (capability_major() < 8)  // shared memory for 64 queries, not for 128
      return launch_tiled<Tiling<T, kHead, 1, 1>>(k, stream);
  return launch_tiled<Tiling<T, kHead, 1>>(k, stream);
}

}  // namespace

cudaError_t launch(const kernels::Attention& k, LaunchStream& on) {
  if (k.shape.elements() == 0) return cudaSuccess;
  return with_type(k.shape.dtype, [&]<class T>(T*) {
    if (!has_instructions<T>()) return cudaErrorInvalidValue;
    return with_padded_head(k.shape.head_size, [&]<int kHead>(std::integral_constant<int, kHead>) {
      return launch_sized<T, kHead>(k, on.native);
    });
  });
}

}  // namespace gpuplan::cuda
