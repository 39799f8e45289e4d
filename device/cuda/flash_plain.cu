// Attention tile by tile in fp32, on the plain cores. Four threads have a query; each has a quarter of the tile's keys, then a
// quarter of the output.
#include "device/cuda/flash_tiles.cuh"

namespace gpuplan::cuda {
namespace {

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
  const float to_log2 = softmax_factor(head_size);
  OnlineSoftmax softmax;

  const std::int64_t num_tiles = block.num_tiles(kPlainKeys);
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    const std::int64_t first_key = tile * kPlainKeys, offset = block.key_offset + first_key * head_size;
    __syncthreads();
    load_rows<Tiles::kRow>(tiles.keys, k + offset, kPlainKeys, shape.keys - first_key, head_size);
    load_rows<Tiles::kRow>(tiles.values, v + offset, kPlainKeys, shape.keys - first_key, head_size);
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

template <int kMaxHead>
cudaError_t launch_sized(const FlashShape& shape, const float* q, const float* k, const float* v, float* out,
                         cudaStream_t stream) {
  plain_flash_kernel<kMaxHead><<<num_flash_blocks(shape, kPlainQueries), kPlainThreads, 0, stream>>>(shape, q, k, v, out);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_plain_flash(const FlashShape& shape, const float* q, const float* k, const float* v, float* out,
                               cudaStream_t stream) {
  return shape.head_size <= 64 ? launch_sized<64>(shape, q, k, v, out, stream) : launch_sized<128>(shape, q, k, v, out, stream);
}

}  // namespace gpuplan::cuda
