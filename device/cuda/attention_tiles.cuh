// Attention as its kernels see it: who sees whom, where a head lies, what a block keeps, and tiles on their way to
// shared memory.
//
// Every kernel works alike. A block keeps some rows of one head (queries, or keys) and goes through the tiles of the
// other side; a warp has 16 or 32 of the rows. Tiles come in pairs (keys and values, or queries and gradients), copied
// asynchronously where the GPU can.
#pragma once

#include <type_traits>

#include "device/cuda/launch.h"
#include "device/cuda/ptx.cuh"

namespace gpuplan::cuda {

/// An AttentionShape as kernels want it: positions as int, distances as 64 bits.
struct AttentionView {
  int heads, group, seq, head_size;  // `group` query heads share a key head
  int window;                        // a query sees at most `window` keys, its own the last; 0: all before it
  bool is_aligned;                   // rows can be moved 16 bytes at a time
  std::int64_t query_row, key_row;   // elements from row to row

  __device__ int first_key(int query) const {
    const int first = window > 0 ? query - window + 1 : 0;
    return first > 0 ? first : 0;
  }
  __device__ int last_key(int query) const { return query < seq - 1 ? query : seq - 1; }
  __device__ int first_query(int key) const { return key; }
  __device__ int last_query(int key) const {
    const int last = window > 0 ? key + window - 1 : seq - 1;
    return last < seq - 1 ? last : seq - 1;
  }

  /// Elements before a head of a sequence.
  __device__ std::int64_t query_offset(int sequence, int head) const {
    return std::int64_t(sequence) * seq * query_row + std::int64_t(head) * head_size;
  }
  __device__ std::int64_t key_offset(int sequence, int kv_head) const {
    return std::int64_t(sequence) * seq * key_row + std::int64_t(kv_head) * head_size;
  }
};

/// `is_aligned`: all pointers are, to 16 bytes.
inline AttentionView view_of(const AttentionShape& s, std::int64_t element_bytes, bool is_aligned) {
  GPUPLAN_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "key heads do not divide the query heads");
  return {.heads = int(s.heads),
          .group = int(s.heads / s.kv_heads),
          .seq = int(s.seq),
          .head_size = int(s.head_size),
          .window = int(s.window >= s.seq ? 0 : s.window),
          .is_aligned = is_aligned && s.head_size * element_bytes % 16 == 0,
          .query_row = s.heads * s.head_size,
          .key_row = s.kv_heads * s.head_size};
}

/// Rows and head of a block. The blocks of a head with most to do start first.
struct BlockRows {
  int tile, head, sequence;

  __device__ BlockRows(int num_rows, int rows_per_block, int heads, bool is_last_first) {
    const unsigned tiles = (unsigned(num_rows) + rows_per_block - 1) / rows_per_block, from_start = blockIdx.x % tiles;
    tile = int(is_last_first ? tiles - 1 - from_start : from_start);
    head = int(blockIdx.x / tiles % heads);
    sequence = int(blockIdx.x / tiles / heads);
  }
};

inline unsigned num_row_blocks(std::int64_t rows, int rows_per_block, std::int64_t num_heads) {
  return unsigned((rows + rows_per_block - 1) / rows_per_block * num_heads);
}

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

// --- which kernel is for a shape, a dtype and this GPU --------------------------------------------------------------

/// Lets a kernel have more dynamic shared memory than the 48 KiB that each may have. cudaErrorInvalidValue: more than
/// the GPU has.
template <class Kernel>
cudaError_t allow_shared_memory(Kernel* kernel, int bytes) {
  if (bytes <= 48 * 1024) return cudaSuccess;
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                              bytes);
}

/// The first number of the compute capability of this thread's GPU; 0 when it does not say.
inline int capability_major() {
  int device = 0, major = 0;
  const bool is_known = cudaGetDevice(&device) == cudaSuccess &&
                        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
  return is_known ? major : 0;
}
/// Says whether that GPU has the instructions that T's kernels are made of; as kHasTensorCores says while compiling for
/// it.
template <class T>
bool has_instructions() {
  return !std::is_same_v<T, Bf16> || capability_major() >= 8;
}

/// Calls `launch` with the least number of columns, as a type, that kernels are compiled for and that holds the head.
template <class Launch>
cudaError_t with_padded_head(std::int64_t head_size, Launch launch) {
  if (head_size <= 0 || head_size > 256) return cudaErrorInvalidValue;
  if (head_size <= 64) return launch(std::integral_constant<int, 64>{});
  if (head_size <= 128) return launch(std::integral_constant<int, 128>{});
  return launch(std::integral_constant<int, 256>{});
}

}  // namespace gpuplan::cuda
