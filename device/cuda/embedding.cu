// Rows of a table by their number, and the gradient of the table.
#include "device/cuda/launch.h"
#include "device/cuda/threads.cuh"

namespace gpuplan::cuda {
namespace {

/// A block has a row.
template <class Y, class T>
__global__ void __launch_bounds__(kRowThreads)
    embed_kernel(Y* y, const T* table, const std::int32_t* ids, std::int64_t hidden, std::int64_t first,
                 std::int64_t held, bool is_aligned) {
  Y* const to = y + std::int64_t(blockIdx.x) * hidden;
  const std::int64_t row = ids[blockIdx.x] - first;
  const bool is_held = row >= 0 && row < held;
  const T* const from = table + (is_held ? row : 0) * hidden;
  for (std::int64_t at = threadIdx.x * kEight; at < hidden; at += kRowThreads * kEight) {
    const int size = size_at(at, hidden);
    const bool is_whole = is_aligned && size == kEight;
    float x[kEight] = {};
    if (is_held) load(x, from + at, size, is_whole);
    store(to + at, x, size, is_whole);
  }
}

// --- backward -------------------------------------------------------------------------------------------------------

// Rows of dy that one launch takes. Each block looks for its row's id in all of them, which is little beside moving the
// row; the next launch goes on, so that the work grows with the number of rows and not with its square.

constexpr int kIdsPerThread = 8, kRowsAtOnce = kRowThreads * kIdsPerThread, kColumnsPerBlock = kRowThreads * kEight;

/// Rows of a launch that have the block's id: bit r is row r.
struct SameId {
  std::uint32_t words[kRowsAtOnce / 32];

  /// The first row at or behind `row` that has it; kRowsAtOnce when there is none.
  __device__ int from(int row) const {
    if (row >= kRowsAtOnce) return kRowsAtOnce;
    int word = row / 32;
    std::uint32_t left = words[word] >> (row % 32) << (row % 32);
    while (left == 0) {
      if (++word == kRowsAtOnce / 32) return kRowsAtOnce;
      left = words[word];
    }
    return word * 32 + __ffs(int(left)) - 1;
  }
};

/// Called by all threads of the block; it waits for itself. Each thread has the bits of one byte.
__device__ void find_same(SameId& same, const std::int32_t* ids, int rows, bool is_aligned, std::int32_t id) {
  const int first = int(threadIdx.x) * kIdsPerThread;
  std::int32_t some[kIdsPerThread];
  unsigned bits = 0;
  if (is_aligned && first + kIdsPerThread <= rows) {
    const int4 low = reinterpret_cast<const int4*>(ids + first)[0],
               high = reinterpret_cast<const int4*>(ids + first)[1];
    memcpy(some, &low, sizeof low);
    memcpy(some + 4, &high, sizeof high);
  } else {
#pragma unroll
    for (int i = 0; i < kIdsPerThread; ++i) some[i] = first + i < rows ? ids[first + i] : ~id;
  }
#pragma unroll
  for (int i = 0; i < kIdsPerThread; ++i) bits |= some[i] == id ? 1U << i : 0U;
  reinterpret_cast<std::uint8_t*>(same.words)[threadIdx.x] = std::uint8_t(bits);
  __syncthreads();
}

/// A block has a row and 2048 of its columns. The first row of an id adds all that have it to the gradient, in their
/// order; the blocks of the others have nothing to do.
template <class G, class T>
__global__ void __launch_bounds__(kRowThreads)
    embed_backward_kernel(G* gradient, const T* dy, const std::int32_t* ids, int rows, std::int64_t hidden,
                          std::int64_t first, std::int64_t held, int pieces, bool is_aligned, bool are_ids_aligned) {
  constexpr int kInFlight = 4;  // rows whose elements are on their way at once
  __shared__ SameId same;
  const int own_row = int(blockIdx.x) / pieces;
  const std::int32_t id = ids[own_row];
  if (id < first || id - first >= held) return;
  find_same(same, ids, rows, are_ids_aligned, id);
  if (same.from(0) != own_row) return;
  const std::int64_t at = std::int64_t(int(blockIdx.x) % pieces) * kColumnsPerBlock + threadIdx.x * kEight;
  if (at >= hidden) return;
  const int size = size_at(at, hidden);
  const bool is_whole = is_aligned && size == kEight;
  G* const to = gradient + (id - first) * hidden + at;
  float sum[kEight] = {};
  load(sum, to, size, is_whole);
  for (int row = own_row; row < kRowsAtOnce;) {
    float added[kInFlight][kEight] = {};
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (row < kRowsAtOnce) load(added[k], dy + row * hidden + at, size, is_whole);
      row = same.from(row + 1);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)
#pragma unroll
      for (int i = 0; i < kEight; ++i) sum[i] += added[k][i];
  }
  store(to, sum, size, is_whole);
}

}  // namespace

cudaError_t launch(const kernels::Embed& k, LaunchStream& on) {
  if (k.rows == 0 || k.hidden == 0) return cudaSuccess;
  return typed(
      [rows = k.rows, hidden = k.hidden, ids = k.ids, first = k.first, held = k.held, stream = on.native](auto* y,
                                                                                                          auto* table) {
        const bool is_aligned = are_aligned(y, table) && hidden % kEight == 0;
        embed_kernel<<<unsigned(rows), kRowThreads, 0, stream>>>(y, table, ids, hidden, first, held, is_aligned);
        return cudaGetLastError();
      },
      k.y, k.table);
}

/// The rows of an id are summed in fp32, in their order, and rounded once per kRowsAtOnce rows of dy.
cudaError_t launch(const kernels::EmbedBackward& k, LaunchStream& on) {
  if (k.rows == 0 || k.hidden == 0) return cudaSuccess;
  return typed(
      [rows = k.rows, hidden = k.hidden, ids = k.ids, low = k.first, held = k.held, stream = on.native](auto* gradient,
                                                                                                        auto* dy) {
        const bool is_aligned = are_aligned(gradient, dy) && hidden % kEight == 0;
        const bool are_ids_aligned = are_aligned(ids);
        const int pieces = int((hidden + kColumnsPerBlock - 1) / kColumnsPerBlock);
        for (std::int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
          const int some = rows - begin < kRowsAtOnce ? int(rows - begin) : kRowsAtOnce;
          const auto* const first = dy + begin * hidden;
          embed_backward_kernel<<<unsigned(some * pieces), kRowThreads, 0, stream>>>(
              gradient, first, ids + begin, some, hidden, low, held, pieces, is_aligned, are_ids_aligned);
          if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
        }
        return cudaSuccess;
      },
      k.gradient, k.dy);
}

}  // namespace gpuplan::cuda
