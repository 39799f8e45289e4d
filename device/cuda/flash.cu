// Attention without a matrix of scores in memory: tiles of queries by keys, an online softmax, tiles that no query sees left
// out (Dao et al. 2022). 16-bit products on tensor cores through wmma, fp32 on the plain cores. Written for being right on
// every GPU from sm_75 on: no asynchronous copies and no wgmma, so FlashAttention-2 is faster.
#include <mma.h>

#include <type_traits>

#include "device/cuda/flash_tiles.cuh"
#include "device/cuda/kernels.h"
#include "device/cuda/number.cuh"

namespace gpuplan::cuda {
namespace {

namespace wmma = nvcuda::wmma;

// --- 16 bit: each of four warps has 16 queries; the accumulators of the output stay in registers -----------------------

constexpr int kTensorQueries = 64, kTensorKeys = 32, kFragment = 16, kWarps = kTensorQueries / kFragment;
constexpr int kScoreRow = kTensorKeys + 4, kWeightRow = kTensorKeys + 8;  // padded against bank conflicts

/// Rows are padded by 16 bytes; wmma wants fragments at 32-byte boundaries, which rows of 16 keep.
template <class T, int kMaxHead>
struct alignas(32) TensorTiles {
  static constexpr int kRow = kMaxHead + 8;
  T keys_values[2 * kTensorKeys * kRow];  // first the queries, on their way to registers
  float scores[kTensorQueries * kScoreRow];
  T weights[kTensorQueries * kWeightRow];
  float scale[kTensorQueries];
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
template <class T>
constexpr bool kHasTensorCores = true;
#else
template <class T>
constexpr bool kHasTensorCores = std::is_same_v<T, F16>;  // sm_75
#endif

using Accumulator = wmma::fragment<wmma::accumulator, kFragment, kFragment, kFragment, float>;
template <class T>
using Left = wmma::fragment<wmma::matrix_a, kFragment, kFragment, kFragment, T, wmma::row_major>;
template <class T, class Order>
using Right = wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, T, Order>;

/// Which row each element of an accumulator is of. wmma does not say how a fragment is spread over the lanes, so we load a
/// matrix of row numbers and look.
__device__ void find_rows(int (&row_of)[Accumulator::num_elements], float* scratch) {
  const int lane = int(threadIdx.x) % 32;
  for (int i = lane; i < kFragment * kFragment; i += 32)
    scratch[i / kFragment * kScoreRow + i % kFragment] = float(i / kFragment);
  __syncwarp();
  Accumulator numbers;
  wmma::load_matrix_sync(numbers, scratch, kScoreRow, wmma::mem_row_major);
  for (int i = 0; i < Accumulator::num_elements; ++i) row_of[i] = int(numbers.x[i]);
  __syncwarp();
}

template <class T, int kMaxHead>
__device__ void attend_on_tensor_cores(const FlashShape& shape, const T* q, const T* k, const T* v, T* out) {
  constexpr int kNumFragments = kMaxHead / kFragment, kNumKeyFragments = kTensorKeys / kFragment;
  using Tiles = TensorTiles<T, kMaxHead>;
  static_assert(kTensorQueries <= 2 * kTensorKeys && sizeof(Tiles) <= 48 * 1024);
  __shared__ Tiles tiles;
  T* const keys = tiles.keys_values;
  T* const values = keys + kTensorKeys * Tiles::kRow;

  const int head_size = shape.head_size, lane = int(threadIdx.x) % 32, first_row = int(threadIdx.x) / 32 * kFragment;
  const FlashBlock block(shape, kTensorQueries);
  float* const scores = tiles.scores + first_row * kScoreRow;
  T* const weights = tiles.weights + first_row * kWeightRow;
  float* const scale = tiles.scale + first_row;

  load_rows<Tiles::kRow>(tiles.keys_values, q + block.query_offset, kTensorQueries, block.num_queries, head_size);
  __syncthreads();
  Left<T> queries[kNumFragments];
#pragma unroll
  for (int f = 0; f < kNumFragments; ++f)
    if (f * kFragment < head_size)
      wmma::load_matrix_sync(queries[f], tiles.keys_values + first_row * Tiles::kRow + f * kFragment, Tiles::kRow);
  int row_of[Accumulator::num_elements];
  find_rows(row_of, scores);
  Accumulator sums[kNumFragments];
#pragma unroll
  for (int f = 0; f < kNumFragments; ++f) wmma::fill_fragment(sums[f], 0.0F);

  // In the softmax two lanes have a row: each half of the tile's keys.
  const int row = lane / 2, half = lane % 2;
  const std::int64_t last_visible = block.last_visible(first_row + row);
  const float to_log2 = rsqrtf(float(head_size)) * 1.44269504F;  // log2(e): exp2 is what the hardware has
  OnlineSoftmax softmax;

  const std::int64_t num_tiles = block.num_tiles(kTensorKeys);
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    const std::int64_t first_key = tile * kTensorKeys;
    __syncthreads();  // everybody is done with what lies in the tiles
    load_rows<Tiles::kRow>(keys, k + block.key_offset + first_key * head_size, kTensorKeys, shape.keys - first_key, head_size);
    load_rows<Tiles::kRow>(values, v + block.key_offset + first_key * head_size, kTensorKeys, shape.keys - first_key, head_size);
    __syncthreads();

#pragma unroll
    for (int c = 0; c < kNumKeyFragments; ++c) {
      Accumulator product;
      wmma::fill_fragment(product, 0.0F);
#pragma unroll
      for (int f = 0; f < kNumFragments; ++f) {
        if (f * kFragment >= head_size) continue;
        Right<T, wmma::col_major> right;
        wmma::load_matrix_sync(right, keys + c * kFragment * Tiles::kRow + f * kFragment, Tiles::kRow);
        wmma::mma_sync(product, queries[f], right, product);
      }
      wmma::store_matrix_sync(scores + c * kFragment, product, kScoreRow, wmma::mem_row_major);
    }
    __syncwarp();

    float x[kTensorKeys / 2];
#pragma unroll
    for (int i = 0; i < kTensorKeys / 2; ++i) {
      const int column = half * (kTensorKeys / 2) + i;
      x[i] = first_key + column <= last_visible ? scores[row * kScoreRow + column] * to_log2 : -INFINITY;
    }
    const float shrink = softmax.add<2>(x);
#pragma unroll
    for (int i = 0; i < kTensorKeys / 2; ++i)
      weights[row * kWeightRow + half * (kTensorKeys / 2) + i] = rounded<T>(x[i]);
    if (half == 0) scale[row] = shrink;
    __syncwarp();

    Left<T> left[kNumKeyFragments];
#pragma unroll
    for (int c = 0; c < kNumKeyFragments; ++c) wmma::load_matrix_sync(left[c], weights + c * kFragment, kWeightRow);
#pragma unroll
    for (int f = 0; f < kNumFragments; ++f) {
      if (f * kFragment >= head_size) continue;
#pragma unroll
      for (int i = 0; i < Accumulator::num_elements; ++i) sums[f].x[i] *= scale[row_of[i]];
#pragma unroll
      for (int c = 0; c < kNumKeyFragments; ++c) {
        Right<T, wmma::row_major> right;
        wmma::load_matrix_sync(right, values + c * kFragment * Tiles::kRow + f * kFragment, Tiles::kRow);
        wmma::mma_sync(sums[f], left[c], right, sums[f]);
      }
    }
    __syncwarp();
  }

  if (half == 0) scale[row] = softmax.inverse_sum();
  __syncwarp();
#pragma unroll
  for (int f = 0; f < kNumFragments; ++f) {
    if (f * kFragment >= head_size) continue;
#pragma unroll
    for (int i = 0; i < Accumulator::num_elements; ++i) sums[f].x[i] *= scale[row_of[i]];
    wmma::store_matrix_sync(scores, sums[f], kScoreRow, wmma::mem_row_major);
    __syncwarp();
    if (first_row + row < block.num_queries) {
      float x[kEight];
      for (int i = 0; i < kEight; ++i) x[i] = scores[row * kScoreRow + half * kEight + i];
      T* const to = out + block.query_offset + std::int64_t(first_row + row) * head_size + f * kFragment + half * kEight;
      store(to, x, kEight, true);
    }
    __syncwarp();
  }
}

template <class T, int kMaxHead>
__global__ void __launch_bounds__(kWarps * 32)
    tensor_flash_kernel(FlashShape shape, const T* q, const T* k, const T* v, T* out) {
  if constexpr (kHasTensorCores<T>) attend_on_tensor_cores<T, kMaxHead>(shape, q, k, v, out);
}

// --- fp32: four threads have a query; each has a quarter of the tile's keys, then a quarter of the output ---------------

constexpr int kPlainQueries = 32, kPlainKeys = 16, kThreadsPerQuery = 4, kPlainThreads = kPlainQueries * kThreadsPerQuery;

template <int kMaxHead>
struct alignas(16) PlainTiles {
  static constexpr int kRow = kMaxHead + 4;
  float queries[kPlainQueries * kRow], keys[kPlainKeys * kRow], values[kPlainKeys * kRow];
  float weights[kPlainQueries][kPlainKeys + 1];
};

__device__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

template <int kMaxHead>
__global__ void __launch_bounds__(kPlainThreads)
    plain_flash_kernel(FlashShape shape, const float* q, const float* k, const float* v, float* out) {
  using Tiles = PlainTiles<kMaxHead>;
  constexpr int kKeysPerThread = kPlainKeys / kThreadsPerQuery, kOutputs = kMaxHead / kThreadsPerQuery;
  static_assert(sizeof(Tiles) <= 48 * 1024);
  __shared__ Tiles tiles;
  const int head_size = shape.head_size, row = int(threadIdx.x) / kThreadsPerQuery, part = int(threadIdx.x) % kThreadsPerQuery;
  const FlashBlock block(shape, kPlainQueries);
  load_rows<Tiles::kRow>(tiles.queries, q + block.query_offset, kPlainQueries, block.num_queries, head_size);

  float sums[kOutputs] = {};  // of columns part, part + 4, part + 8, …
  const std::int64_t last_visible = block.last_visible(row);
  const float to_log2 = rsqrtf(float(head_size)) * 1.44269504F;
  OnlineSoftmax softmax;

  const std::int64_t num_tiles = block.num_tiles(kPlainKeys);
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    const std::int64_t first_key = tile * kPlainKeys;
    __syncthreads();
    load_rows<Tiles::kRow>(tiles.keys, k + block.key_offset + first_key * head_size, kPlainKeys, shape.keys - first_key, head_size);
    load_rows<Tiles::kRow>(tiles.values, v + block.key_offset + first_key * head_size, kPlainKeys, shape.keys - first_key, head_size);
    __syncthreads();

    float x[kKeysPerThread] = {};
    for (int d = 0; d < head_size; d += 4) {
      const float4 query = *reinterpret_cast<const float4*>(tiles.queries + row * Tiles::kRow + d);
#pragma unroll
      for (int i = 0; i < kKeysPerThread; ++i)
        x[i] += dot(query, *reinterpret_cast<const float4*>(tiles.keys + (part + i * kThreadsPerQuery) * Tiles::kRow + d));
    }
#pragma unroll
    for (int i = 0; i < kKeysPerThread; ++i)
      x[i] = first_key + part + i * kThreadsPerQuery <= last_visible ? x[i] * to_log2 : -INFINITY;
    const float shrink = softmax.add<kThreadsPerQuery>(x);
#pragma unroll
    for (int i = 0; i < kKeysPerThread; ++i) tiles.weights[row][part + i * kThreadsPerQuery] = x[i];
    __syncwarp();  // the threads of a row are of one warp
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) sums[i] *= shrink;
    for (int key = 0; key < kPlainKeys; ++key) {
      const float weight = tiles.weights[row][key];
#pragma unroll
      for (int i = 0; i < kOutputs; ++i)
        if (i * kThreadsPerQuery < head_size)
          sums[i] += weight * tiles.values[key * Tiles::kRow + part + i * kThreadsPerQuery];
    }
    __syncwarp();
  }

  const float scale = softmax.inverse_sum();
  if (row >= block.num_queries) return;
  float* const to = out + block.query_offset + std::int64_t(row) * head_size + part;
#pragma unroll
  for (int i = 0; i < kOutputs; ++i)
    if (i * kThreadsPerQuery < head_size) to[i * kThreadsPerQuery] = sums[i] * scale;
}

unsigned num_blocks(const FlashShape& s, int queries) {
  return unsigned(s.batch * s.heads * ((s.queries + queries - 1) / queries));
}

template <int kMaxHead>
cudaError_t launch_sized(const FlashShape& shape, Dtype dtype, const void* q, const void* k, const void* v, void* out,
                         cudaStream_t stream) {
  return with_type(dtype, [=]<class T>(T*) {
    const auto *const queries = static_cast<const T*>(q), *const keys = static_cast<const T*>(k),
               *const values = static_cast<const T*>(v);
    if constexpr (std::is_same_v<T, float>)
      plain_flash_kernel<kMaxHead><<<num_blocks(shape, kPlainQueries), kPlainThreads, 0, stream>>>(shape, queries, keys, values,
                                                                                                  static_cast<T*>(out));
    else
      tensor_flash_kernel<T, kMaxHead><<<num_blocks(shape, kTensorQueries), kWarps * 32, 0, stream>>>(shape, queries, keys, values,
                                                                                                     static_cast<T*>(out));
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t launch_flash(const FlashShape& shape, Dtype dtype, const void* q, const void* k, const void* v, void* out,
                         cudaStream_t stream) {
  if (shape.batch * shape.heads * shape.queries == 0) return cudaSuccess;
  // Two sizes are compiled; a smaller head leaves the fragments beyond it out.
  return shape.head_size <= 64 ? launch_sized<64>(shape, dtype, q, k, v, out, stream)
                               : launch_sized<128>(shape, dtype, q, k, v, out, stream);
}

}  // namespace gpuplan::cuda
