// Attention without a matrix of scores in memory: tiles of queries by keys, an online softmax, tiles that no query sees left
// out (Dao et al. 2022). 16-bit products on tensor cores through wmma; fp32 is in flash_plain.cu. Written for being right on
// every GPU from sm_75 on: no asynchronous copies and no wgmma, so FlashAttention-2 is faster.
//
// Each of four warps has 16 queries; the accumulators of its output stay in registers.
#include <mma.h>

#include <type_traits>

#include "device/cuda/flash_tiles.cuh"

namespace gpuplan::cuda {
namespace {

namespace wmma = nvcuda::wmma;

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

/// One warp's queries on their way through the tiles of keys. All is inlined, so that the fragments stay in registers.
template <class T, int kMaxHead>
struct TensorWarp {
  static constexpr int kNumFragments = kMaxHead / kFragment, kNumKeyFragments = kTensorKeys / kFragment;
  static constexpr int kRow = TensorTiles<T, kMaxHead>::kRow, kHalf = kTensorKeys / 2;
  static constexpr int kNumElements = Accumulator::num_elements;

  // Of this warp in shared memory.
  float *scores, *scale;
  T* weights;
  int head_size;
  // In the softmax two lanes have a row: each half of the tile's keys.
  int row, half;
  Left<T> queries[kNumFragments];
  Accumulator sums[kNumFragments];
  int row_of[kNumElements];
  OnlineSoftmax softmax;

  __device__ TensorWarp(TensorTiles<T, kMaxHead>& tiles, int first_row, int size)
      : scores(tiles.scores + first_row * kScoreRow), scale(tiles.scale + first_row),
        weights(tiles.weights + first_row * kWeightRow), head_size(size), row(int(threadIdx.x) % 32 / 2), half(int(threadIdx.x) % 2) {
    find_rows(row_of, scores);
#pragma unroll
    for (int f = 0; f < kNumFragments; ++f) {
      wmma::fill_fragment(sums[f], 0.0F);
      if (has(f)) wmma::load_matrix_sync(queries[f], tiles.keys_values + first_row * kRow + f * kFragment, kRow);
    }
  }

  /// A head smaller than kMaxHead leaves the last fragments out.
  __device__ bool has(int fragment) const { return fragment * kFragment < head_size; }

  /// scores = queries x keys^T
  __device__ void multiply_keys(const T* keys) {
#pragma unroll
    for (int c = 0; c < kNumKeyFragments; ++c) {
      Accumulator product;
      wmma::fill_fragment(product, 0.0F);
#pragma unroll
      for (int f = 0; f < kNumFragments; ++f) {
        if (!has(f)) continue;
        Right<T, wmma::col_major> right;
        wmma::load_matrix_sync(right, keys + c * kFragment * kRow + f * kFragment, kRow);
        wmma::mma_sync(product, queries[f], right, product);
      }
      wmma::store_matrix_sync(scores + c * kFragment, product, kScoreRow, wmma::mem_row_major);
    }
    __syncwarp();
  }

  /// weights = what the softmax makes of the scores; of keys behind the first `num_visible` nothing. And `scale`, by which the
  /// sums so far shrink.
  __device__ void weigh(std::int64_t num_visible, float to_log2) {
    float x[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int column = half * kHalf + i;
      x[i] = column < num_visible ? scores[row * kScoreRow + column] * to_log2 : -INFINITY;
    }
    const float shrink = softmax.add<2>(x);
#pragma unroll
    for (int i = 0; i < kHalf; ++i) weights[row * kWeightRow + half * kHalf + i] = rounded<T>(x[i]);
    set_scale(shrink);
  }

  /// sums = sums x scale + weights x values
  __device__ void add_values(const T* values) {
    Left<T> left[kNumKeyFragments];
#pragma unroll
    for (int c = 0; c < kNumKeyFragments; ++c) wmma::load_matrix_sync(left[c], weights + c * kFragment, kWeightRow);
#pragma unroll
    for (int f = 0; f < kNumFragments; ++f) {
      if (!has(f)) continue;
      apply_scale(sums[f]);
#pragma unroll
      for (int c = 0; c < kNumKeyFragments; ++c) {
        Right<T, wmma::row_major> right;
        wmma::load_matrix_sync(right, values + c * kFragment * kRow + f * kFragment, kRow);
        wmma::mma_sync(sums[f], left[c], right, sums[f]);
      }
    }
    __syncwarp();
  }

  /// Writes the first `num_rows` rows of the output to `to`, by way of `scores`.
  __device__ void write(T* to, std::int64_t num_rows) {
    set_scale(softmax.inverse_sum());
#pragma unroll
    for (int f = 0; f < kNumFragments; ++f) {
      if (!has(f)) continue;
      apply_scale(sums[f]);
      wmma::store_matrix_sync(scores, sums[f], kScoreRow, wmma::mem_row_major);
      __syncwarp();
      if (row < num_rows) {
        float x[kEight];
        for (int i = 0; i < kEight; ++i) x[i] = scores[row * kScoreRow + half * kEight + i];
        store(to + std::int64_t(row) * head_size + f * kFragment + half * kEight, x, kEight, true);
      }
      __syncwarp();
    }
  }

  __device__ void set_scale(float of_row) {
    if (half == 0) scale[row] = of_row;
    __syncwarp();
  }
  __device__ void apply_scale(Accumulator& sum) const {
#pragma unroll
    for (int i = 0; i < kNumElements; ++i) sum.x[i] *= scale[row_of[i]];
  }
};

template <class T, int kMaxHead>
__device__ void attend_on_tensor_cores(const FlashShape& shape, const T* q, const T* k, const T* v, T* out) {
  using Tiles = TensorTiles<T, kMaxHead>;
  static_assert(kTensorQueries <= 2 * kTensorKeys && sizeof(Tiles) <= 48 * 1024);
  __shared__ Tiles tiles;
  T* const keys = tiles.keys_values;
  T* const values = keys + kTensorKeys * Tiles::kRow;
  const int head_size = shape.head_size, first_row = int(threadIdx.x) / 32 * kFragment;
  const FlashBlock block(shape, kTensorQueries);

  load_rows<Tiles::kRow>(tiles.keys_values, q + block.query_offset, kTensorQueries, block.num_queries, head_size);
  __syncthreads();
  TensorWarp<T, kMaxHead> warp(tiles, first_row, head_size);
  const std::int64_t num_visible = block.last_visible(first_row + warp.row) + 1;

  const std::int64_t num_tiles = block.num_tiles(kTensorKeys);
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    const std::int64_t first_key = tile * kTensorKeys, offset = block.key_offset + first_key * head_size;
    __syncthreads();  // everybody is done with what lies in the tiles
    load_rows<Tiles::kRow>(keys, k + offset, kTensorKeys, shape.keys - first_key, head_size);
    load_rows<Tiles::kRow>(values, v + offset, kTensorKeys, shape.keys - first_key, head_size);
    __syncthreads();
    warp.multiply_keys(keys);
    warp.weigh(num_visible - first_key, softmax_factor(head_size));
    warp.add_values(values);
  }
  warp.write(out + block.query_offset + std::int64_t(first_row) * head_size, block.num_queries - first_row);
}

template <class T, int kMaxHead>
__global__ void __launch_bounds__(kWarps * 32)
    tensor_flash_kernel(FlashShape shape, const T* q, const T* k, const T* v, T* out) {
  if constexpr (kHasTensorCores<T>) attend_on_tensor_cores<T, kMaxHead>(shape, q, k, v, out);
}

/// Two sizes are compiled; a smaller head leaves the fragments beyond it out.
template <class T>
cudaError_t launch_tensor_flash(const FlashShape& shape, const T* q, const T* k, const T* v, T* out, cudaStream_t stream) {
  const unsigned num_blocks = num_flash_blocks(shape, kTensorQueries);
  if (shape.head_size <= 64)
    tensor_flash_kernel<T, 64><<<num_blocks, kWarps * 32, 0, stream>>>(shape, q, k, v, out);
  else
    tensor_flash_kernel<T, 128><<<num_blocks, kWarps * 32, 0, stream>>>(shape, q, k, v, out);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_flash(const FlashShape& shape, Dtype dtype, const void* q, const void* k, const void* v, void* out,
                         cudaStream_t stream) {
  if (shape.batch * shape.heads * shape.queries == 0) return cudaSuccess;
  return with_type(dtype, [=]<class T>(T*) {
    const auto *const queries = static_cast<const T*>(q), *const keys = static_cast<const T*>(k);
    const auto* const values = static_cast<const T*>(v);
    if constexpr (std::is_same_v<T, float>)
      return launch_plain_flash(shape, queries, keys, values, static_cast<T*>(out), stream);
    else
      return launch_tensor_flash(shape, queries, keys, values, static_cast<T*>(out), stream);
  });
}

}  // namespace gpuplan::cuda
