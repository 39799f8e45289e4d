// What the flash kernels share: which queries a block has, what they see, tiles on their way to shared memory, and the
// softmax that goes on from tile to tile.
#pragma once

#include "device/cuda/kernels.h"
#include "device/cuda/number.cuh"

namespace gpuplan::cuda {

/// The queries of one block: a tile of one head. Of a causal head the tiles with most keys start first.
struct FlashBlock {
  std::int64_t query_offset, key_offset;  // elements before the first query, and before the first key of its head
  std::int64_t first_query, num_queries;  // num_queries may be more than a tile has
  std::int64_t keys, sees_more;           // query i sees keys up to i + sees_more
  bool is_causal;
  int tile_queries;

  __device__ FlashBlock(const FlashShape& s, int queries_per_tile) {
    const std::int64_t tiles = (s.queries + queries_per_tile - 1) / queries_per_tile;
    const std::int64_t tile = tiles - 1 - blockIdx.x % tiles, head = blockIdx.x / tiles;
    const std::int64_t sequence = head / s.heads, kv_head = head % s.heads / (s.heads / s.kv_heads);
    first_query = tile * queries_per_tile;
    num_queries = s.queries - first_query;
    query_offset = (head * s.queries + first_query) * s.head_size;
    key_offset = (sequence * s.kv_heads + kv_head) * s.keys * s.head_size;
    keys = s.keys;
    sees_more = s.keys - s.queries;
    is_causal = s.is_causal;
    tile_queries = queries_per_tile;
  }

  /// The last key that query `row` of this block sees; -1 or less when none.
  __device__ std::int64_t last_visible(int row) const {
    const std::int64_t last = keys - 1, causal = first_query + row + sees_more;
    return is_causal && causal < last ? causal : last;
  }
  /// Tiles of keys that some query of this block sees.
  __device__ std::int64_t num_tiles(int tile_keys) const {
    const std::int64_t visible = last_visible(tile_queries - 1) + 1;
    return visible > 0 ? (visible + tile_keys - 1) / tile_keys : 0;
  }
};

inline unsigned num_flash_blocks(const FlashShape& s, int queries_per_tile) {
  return unsigned(s.batch * s.heads * ((s.queries + queries_per_tile - 1) / queries_per_tile));
}

/// fp32 alone; flash_plain.cu.
cudaError_t launch_plain_flash(const FlashShape& shape, const float* q, const float* k, const float* v, float* out,
                               cudaStream_t stream);

/// What turns a product into the power of 2 that the softmax takes: the hardware has exp2. Log2(e) / sqrt(head_size).
__device__ inline float softmax_factor(int head_size) { return 1.44269504F * rsqrtf(float(head_size)); }

/// `rows` rows of `head_size` elements into shared memory, kRow apart, by all threads; rows from `num_valid` on become 0.
template <int kRow, class T>
__device__ void load_rows(T* to, const T* from, int rows, std::int64_t num_valid, int head_size) {
  constexpr int kPerVector = int(sizeof(uint4) / sizeof(T));
  const int vectors = head_size / kPerVector;
  for (int i = int(threadIdx.x); i < rows * vectors; i += int(blockDim.x)) {
    const int row = i / vectors, at = i % vectors * kPerVector;
    const uint4 zero = {0, 0, 0, 0};
    *reinterpret_cast<uint4*>(to + row * kRow + at) =
        row < num_valid ? *reinterpret_cast<const uint4*>(from + std::int64_t(row) * head_size + at) : zero;
  }
}

/// The softmax of one row in base 2, of which `kLanes` neighbouring lanes see a part each.
struct OnlineSoftmax {
  float largest = -INFINITY, sum = 0;

  /// Replaces `x` by its weights; what was summed up before is to be multiplied by the result.
  template <int kLanes, int kSize>
  __device__ float add(float (&x)[kSize]) {
    float now = largest;
#pragma unroll
    for (int i = 0; i < kSize; ++i) now = fmaxf(now, x[i]);
#pragma unroll
    for (int lane = 1; lane < kLanes; lane *= 2) now = fmaxf(now, __shfl_xor_sync(0xffffffffU, now, lane));
    const float base = now == -INFINITY ? 0.0F : now;  // nothing seen yet: all weights are 0, not NaN
    float some = 0;
#pragma unroll
    for (int i = 0; i < kSize; ++i) some += x[i] = exp2f(x[i] - base);
#pragma unroll
    for (int lane = 1; lane < kLanes; lane *= 2) some += __shfl_xor_sync(0xffffffffU, some, lane);
    const float shrink = exp2f(largest - base);
    sum = sum * shrink + some;
    largest = now;
    return shrink;
  }
  __device__ float inverse_sum() const { return sum > 0 ? 1.0F / sum : 0.0F; }
};

}  // namespace gpuplan::cuda
