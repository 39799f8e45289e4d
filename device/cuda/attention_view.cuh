// Attention as its kernels see it: who sees whom, where a head lies, and which rows of it a block has.
#pragma once

#include "device/cuda/kernels.h"
#include "device/training_kernels.h"

namespace gpuplan::cuda {

inline FlashShape flash_shape(const SequenceAttention& s) {
  return {.batch = s.batch,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .queries = s.seq,
          .keys = s.seq,
          .head_size = int(s.head_size),
          .is_causal = true,
          .has_heads_within_rows = true,
          .window = s.window};
}

/// A FlashShape as kernels want it: positions as int, distances as 64 bits.
struct AttentionView {
  int heads, group, queries, keys, head_size;  // `group` query heads share a key head
  int sees_more, window;       // a causal query i sees keys up to i + sees_more, at most `window` of them (0: all)
  bool is_causal, is_aligned;  // aligned: rows can be moved 16 bytes at a time
  std::int64_t query_row, query_head, key_row, key_head;  // elements from row to row, and from head to head

  __device__ int first_key(int query) const {
    const int first = window > 0 ? query + sees_more - window + 1 : 0;
    return first > 0 ? first : 0;
  }
  __device__ int last_key(int query) const {
    const int last = is_causal ? query + sees_more : keys - 1;
    return last < keys - 1 ? last : keys - 1;
  }
  __device__ int first_query(int key) const {
    const int first = is_causal ? key - sees_more : 0;
    return first > 0 ? first : 0;
  }
  __device__ int last_query(int key) const {
    const int last = window > 0 ? key - sees_more + window - 1 : queries - 1;
    return last < queries - 1 ? last : queries - 1;
  }

  /// Elements before a head of a sequence.
  __device__ std::int64_t query_offset(int sequence, int head) const {
    return std::int64_t(sequence) * heads * queries * head_size + head * query_head;
  }
  __device__ std::int64_t key_offset(int sequence, int kv_head) const {
    return std::int64_t(sequence) * (heads / group) * keys * head_size + kv_head * key_head;
  }
};

/// `is_aligned`: all pointers are, to 16 bytes.
inline AttentionView view_of(const FlashShape& s, std::int64_t element_bytes, bool is_aligned) {
  const bool within = s.has_heads_within_rows;
  const auto group = s.heads / s.kv_heads, size = std::int64_t(s.head_size);
  const auto window = s.window >= s.queries + s.keys ? 0 : s.window;
  return {.heads = int(s.heads),
          .group = int(group),
          .queries = int(s.queries),
          .keys = int(s.keys),
          .head_size = s.head_size,
          .sees_more = int(s.keys - s.queries),
          .window = int(window),
          .is_causal = s.is_causal,
          .is_aligned = is_aligned && size * element_bytes % 16 == 0,
          .query_row = within ? s.heads * size : size,
          .query_head = within ? size : s.queries * size,
          .key_row = within ? s.kv_heads * size : size,
          .key_head = within ? size : s.keys * size};
}

/// Which rows of which head a block has. Of a head the blocks with most to do start first.
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

}  // namespace gpuplan::cuda
