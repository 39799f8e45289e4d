// What the attention kernels keep and what goes by, and tiles on their way to shared memory.
//
// Every kernel works alike. A block keeps some rows of one head (queries, or keys) and goes through the tiles of the
// other side; a warp has 16 or 32 of the rows. Tiles come in pairs (keys and values, or queries and gradients), copied
// asynchronously where the GPU can.
#pragma once

#include "device/cuda/attention_view.cuh"
#include "device/cuda/ptx.cuh"

namespace gpuplan::cuda {

constexpr float kLog2E = 1.44269504F;

/// How a kernel divides its work, and why. It keeps the rows of `kNumKept` matrices: the queries (forward), or keys and
/// values, or queries and gradients (backward). A head is padded with zeros to kHead columns.
///
/// 16-bit up to 128 columns: four warps, and tiles of 32 rows in two stages: one pair is multiplied while the other
/// arrives.
///   Forward a warp has 32 queries, two fragments: each fragment of keys or values that is read serves two products,
///   and each tile 128 queries. With 16, shared memory and L2 would be slower than an H100's tensor cores (mma.sync).
///   The sums take the registers, so the queries stay in shared memory: 36, 68 KiB for 64, 128 columns; two or three
///   blocks per SM of an A100 or H100. Backward a warp has 16 rows, in registers as fragments, and more than 64 or 128
///   sums per lane beside. They come in by the memory of the tiles, which is all there is: 18, 34 KiB. Registers allow
///   two or three blocks per SM.
/// 16-bit beyond, and fp32: kept rows stay in shared memory, and one pair of 16-row tiles follows them. fp32 has two
/// warps per block.
///   Backward of 16-bit and 256 columns takes 82.5 KiB, of fp32 and 128 columns 49.5, of fp32 and 256 columns 97.5.
/// A GPU gives 64 KiB (sm_75), 99 KiB (sm_86, sm_89, sm_120) or more.
///
/// Rows are padded by 16 bytes, so that the eight rows which ldmatrix reads at once lie in different banks.
template <class T, int kHeadColumns, int kNumKept, int kMaxFragments = 2>
struct Tiling {
  using Number = T;
  static constexpr int kHead = kHeadColumns;
  static constexpr bool kIsSmall = sizeof(T) == 2 && kHead <= 128, kIsForward = kNumKept == 1;
  static constexpr bool kKeepsFragments = kIsSmall && !kIsForward;
  static constexpr int kFragments = kIsSmall && kIsForward ? kMaxFragments : 1, kWarpRows = kFragments * 16;
  static constexpr int kNumWarps = sizeof(T) == 2 ? 4 : 2, kThreads = kNumWarps * 32;
  static constexpr int kBlockRows = kNumWarps * kWarpRows;
  static constexpr int kTileRows = kIsSmall ? 32 : 16, kNumStages = kIsSmall ? 2 : 1;

  static constexpr int kRow = kHead + int(16 / sizeof(T));  // elements from row to row of shared memory
  static constexpr int kTile = kTileRows * kRow, kPair = 2 * kTile, kKept = kBlockRows * kRow;
  static constexpr int kPairsAt = kKeepsFragments ? 0 : kNumKept * kKept;  // where the tiles begin
  static constexpr int kBytes = (kPairsAt + kNumStages * kPair) * int(sizeof(T));
  static_assert(!kKeepsFragments || kNumKept * kKept <= kNumStages * kPair);
};

/// Rows [0, kRows) of a head on their way into shared memory, by all threads; what lies behind `num_there` rows or the
/// head's columns becomes 0. `stride`: elements from row to row.
template <class Tiles, int kRows, class T>
__device__ void copy_rows(const AttentionView& view, T* to, const T* from, std::int64_t stride, int num_there) {
  constexpr int kPerVector = int(16 / sizeof(T)), kVectors = Tiles::kHead / kPerVector, kRow = Tiles::kRow;
  for (int i = int(threadIdx.x); i < kRows * kVectors; i += Tiles::kThreads) {
    const int row = i / kVectors, column = i % kVectors * kPerVector;
    const int num_valid = row < num_there ? view.head_size - column : 0;
    T* const target = to + row * kRow + column;
    const T* const source = num_valid > 0 ? from + row * stride + column : from;
    if (view.is_aligned) {
      copy_to_shared(target, source, num_valid > 0);
      continue;
    }
#pragma unroll
    for (int e = 0; e < kPerVector; ++e) target[e] = e < num_valid ? source[e] : rounded<T>(0.0F);
  }
}

/// Goes through `num` pairs of tiles: `copy(i, pair)` starts number i's way to `pair`, `work(i, pair)` uses what has
/// arrived. With two stages the next pair is under way meanwhile.
template <class Tiles, class T, class Copy, class Work>
__device__ void for_each_pair(int num, T* pairs, Copy copy, Work work) {
  if (Tiles::kNumStages == 2 && num > 0) copy(0, pairs);
  for (int i = 0; i < num; ++i) {
    T* const pair = pairs + i % Tiles::kNumStages * Tiles::kPair;
    if constexpr (Tiles::kNumStages == 1) {
      __syncthreads();  // everybody is done with the pair before
      copy(i, pair);
    }
    wait_for_copies();
    __syncthreads();  // it is there for everybody; and everybody is done with the other stage
    if (Tiles::kNumStages == 2 && i + 1 < num) copy(i + 1, pairs + (i + 1) % 2 * Tiles::kPair);
    work(i, pair);
  }
}

}  // namespace gpuplan::cuda
