// dk and dv of attention: a block per rows of keys, which goes through the queries of all heads that share them. dq: a
// block per rows of queries, which goes through the keys.
#pragma once

#include "device/cuda/attention_products.cuh"

namespace gpuplan::cuda {

/// Operands of the kernels below.
template <class T>
struct Inputs {
  const T *q, *k, *v, *dout;
  const float *lse, *delta;  // [batch, heads, seq]
};

constexpr int kStep = 16,
              kNumScores = kStep / 8;  // rows of a tile at a time: the sums leave no registers for scores of more

// --- dk and dv ------------------------------------------------------------------------------------------------------

/// Columns per block. With 256 columns the sums of dk and dv do not fit the registers: blocks have 128 of them each,
/// and compute the scores twice.
template <int kHead>
constexpr int kSumColumns = kHead < 128 ? kHead : 128;

/// lse, to base 2, and delta of a tile's queries, of each stage.
template <class Tiles>
struct QueryNumbers {
  float lse_log2[Tiles::kNumStages][Tiles::kTileRows], delta[Tiles::kNumStages][Tiles::kTileRows];
};

/// A warp's 16 keys, from `first_key` on, on their way through the tiles of queries. Scores are transposed: a row is a
/// key's.
template <class Tiles>
struct KeyWarp {
  using T = typename Tiles::Number;
  static constexpr int kNumSums = kSumColumns<Tiles::kHead> / 8;

  const AttentionView& view;
  int first_key, first_column;  // the first column of the sums
  KeptRows<Tiles> keys, values;
  float to_log2;
  Sums dk[1][kNumSums], dv[1][kNumSums];

  __device__ KeyWarp(const AttentionView& v, int first, int column, const T* key_rows, const T* value_rows)
      : view(v),
        first_key(first),
        first_column(column),
        keys(key_rows),
        values(value_rows),
        to_log2(kLog2E * rsqrtf(float(v.head_size))) {}

  __device__ void add_queries(int first_query, const T* queries, const T* dout, const float* lse_log2,
                              const float* delta) {
#pragma unroll 1
    for (int step = 0; step < Tiles::kTileRows; step += kStep)
      add_step(first_query + step, queries + step * Tiles::kRow, dout + step * Tiles::kRow, lse_log2 + step,
               delta + step);
  }

  __device__ void add_step(int first_query, const T* queries, const T* dout, const float* lse_log2,
                           const float* delta) {
    const int last_key = first_key + Tiles::kWarpRows - 1, last_query = first_query + kStep - 1;
    if (last_query < view.first_query(first_key) || first_query > view.last_query(last_key)) return;
    Sums weights[1][kNumScores], gradients[1][kNumScores];
    multiply<Tiles>(weights, keys, queries);
    multiply<Tiles>(gradients, values, dout);
    weigh(weights[0], first_query, lse_log2);
    add_weighted<Tiles>(dv, weights, dout + first_column);
    const Lane lane;
#pragma unroll
    for (int i = 0; i < 4 * kNumScores; ++i) {
      const float of_query = delta[i / 4 * 8 + lane.column() + i % 2];
      float& x = gradients[0][i / 4].x[i % 4];
      x = weights[0][i / 4].x[i % 4] * (x - of_query);
    }
    add_weighted<Tiles>(dk, gradients, queries + first_column);
  }

  /// Scores to weights; 0 where a query does not see a key.
  __device__ void weigh(Sums (&scores)[kNumScores], int first_query, const float* lse_log2) const {
    const Lane lane;
#pragma unroll
    for (int i = 0; i < 4 * kNumScores; ++i) {
      float& x = scores[i / 4].x[i % 4];
      x = power_of_2(x * to_log2 - lse_log2[i / 4 * 8 + lane.column() + i % 2]);
    }
    const int last_key = first_key + Tiles::kWarpRows - 1, last_query = first_query + kStep - 1;
    if (first_query >= view.first_query(last_key) && last_query <= view.last_query(first_key)) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = first_key + lane.row() + 8 * half;
      hide(scores, half, view.first_query(key) - first_query, view.last_query(key) - first_query, 0);
    }
  }

  /// Writes to the head's first row.
  __device__ void write(T* dk_head, T* dv_head) const {
    const std::int64_t offset = first_key * view.key_row + first_column;
    const int num_rows = view.seq - first_key, num_columns = view.head_size - first_column;
    const float one[2] = {1, 1}, scale = rsqrtf(float(view.head_size)), both[2] = {scale, scale};
    write_rows(dv_head + offset, view.key_row, dv[0], one, num_rows, num_columns, view.is_aligned);
    write_rows(dk_head + offset, view.key_row, dk[0], both, num_rows, num_columns, view.is_aligned);
  }
};

template <class Tiles, class T>
__device__ void key_gradients(const AttentionView& view, const Inputs<T>& in, T* dk, T* dv, T* shared,
                              QueryNumbers<Tiles>& numbers) {
  constexpr int kColumns = kSumColumns<Tiles::kHead>, kParts = Tiles::kHead / kColumns;
  const int kv_heads = view.heads / view.group;
  const BlockRows block(view.seq, Tiles::kBlockRows, kv_heads * kParts, false);
  const int kv_head = block.head / kParts, first_column = block.head % kParts * kColumns;
  const int first_key = block.tile * Tiles::kBlockRows, first_row = int(threadIdx.x) / 32 * Tiles::kWarpRows;
  const std::int64_t key_head = view.key_offset(block.sequence, kv_head),
                     key_offset = key_head + first_key * view.key_row;

  const int num_keys = view.seq - first_key;
  copy_rows<Tiles, Tiles::kBlockRows>(view, shared, in.k + key_offset, view.key_row, num_keys);
  copy_rows<Tiles, Tiles::kBlockRows>(view, shared + Tiles::kKept, in.v + key_offset, view.key_row, num_keys);
  wait_for_copies();
  __syncthreads();
  const T* const rows = shared + first_row * Tiles::kRow;
  KeyWarp<Tiles> warp(view, first_key + first_row, first_column, rows, rows + Tiles::kKept);
  if (Tiles::kKeepsFragments) __syncthreads();  // the tiles come to where the keys and values were

  const int last_key =
      first_key + Tiles::kBlockRows - 1 < view.seq - 1 ? first_key + Tiles::kBlockRows - 1 : view.seq - 1;
  const int first_tile = view.first_query(first_key) / Tiles::kTileRows;
  const int tiles_per_head = view.last_query(last_key) / Tiles::kTileRows + 1 - first_tile;
  const auto first_query_of = [&](int i) { return (first_tile + i % tiles_per_head) * Tiles::kTileRows; };
  const auto copy = [&](int i, T* pair) {
    const int head = kv_head * view.group + i / tiles_per_head, first_query = first_query_of(i),
              num_queries = view.seq - first_query;
    const std::int64_t offset = view.query_offset(block.sequence, head) + first_query * view.query_row;
    copy_rows<Tiles, Tiles::kTileRows>(view, pair, in.q + offset, view.query_row, num_queries);
    copy_rows<Tiles, Tiles::kTileRows>(view, pair + Tiles::kTile, in.dout + offset, view.query_row, num_queries);
    const std::int64_t first_number = (std::int64_t(block.sequence) * view.heads + head) * view.seq + first_query;
    if (const int row = int(threadIdx.x); row < Tiles::kTileRows) {
      const int stage = i % Tiles::kNumStages;
      numbers.lse_log2[stage][row] = row < num_queries ? in.lse[first_number + row] * kLog2E : 0;
      numbers.delta[stage][row] = row < num_queries ? in.delta[first_number + row] : 0;
    }
  };
  const auto work = [&](int i, const T* pair) {
    const int stage = i % Tiles::kNumStages;
    warp.add_queries(first_query_of(i), pair, pair + Tiles::kTile, numbers.lse_log2[stage], numbers.delta[stage]);
  };
  for_each_pair<Tiles>(view.group * tiles_per_head, shared + Tiles::kPairsAt, copy, work);
  warp.write(dk + key_head, dv + key_head);
}

// --- dq -------------------------------------------------------------------------------------------------------------

/// A warp's 16 queries, from `first_query` on, on their way through the tiles of keys.
template <class Tiles>
struct QueryGradientWarp {
  using T = typename Tiles::Number;

  const AttentionView& view;
  int first_query;
  KeptRows<Tiles> queries, dout;
  float to_log2, lse_log2[2] = {}, delta[2] = {};  // of the lane's rows
  Sums dq[1][Tiles::kHead / 8];

  /// lse and delta: of the head, the first query's.
  __device__ QueryGradientWarp(const AttentionView& v, int first, const T* query_rows, const T* dout_rows,
                               const float* lse_of_head, const float* delta_of_head)
      : view(v),
        first_query(first),
        queries(query_rows),
        dout(dout_rows),
        to_log2(kLog2E * rsqrtf(float(v.head_size))) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + Lane{}.row() + 8 * half;
      if (query >= view.seq) continue;
      lse_log2[half] = lse_of_head[query] * kLog2E;
      delta[half] = delta_of_head[query];
    }
  }

  __device__ void add_keys(int first_key, const T* keys, const T* values) {
#pragma unroll 1
    for (int step = 0; step < Tiles::kTileRows; step += kStep)
      add_step(first_key + step, keys + step * Tiles::kRow, values + step * Tiles::kRow);
  }

  __device__ void add_step(int first_key, const T* keys, const T* values) {
    const int last_query = first_query + Tiles::kWarpRows - 1, last_key = first_key + kStep - 1;
    if (first_key > view.last_key(last_query) || last_key < view.first_key(first_query)) return;
    Sums scores[1][kNumScores], gradients[1][kNumScores];
    multiply<Tiles>(scores, queries, keys);
    multiply<Tiles>(gradients, dout, values);
    const bool sees_all = last_key <= view.last_key(first_query) && first_key >= view.first_key(last_query);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 2 * kNumScores; ++i) {
        const int number = 2 * half + i % 2;
        const float weight = power_of_2(scores[0][i / 2].x[number] * to_log2 - lse_log2[half]);
        float& x = gradients[0][i / 2].x[number];
        x = weight * (x - delta[half]);
      }
      const int query = first_query + Lane{}.row() + 8 * half;
      if (!sees_all) hide(gradients[0], half, view.first_key(query) - first_key, view.last_key(query) - first_key, 0);
    }
    add_weighted<Tiles>(dq, gradients, keys);
  }

  /// Writes to the head's first row.
  __device__ void write(T* to) const {
    const float scale = rsqrtf(float(view.head_size)), both[2] = {scale, scale};
    write_rows(to + first_query * view.query_row, view.query_row, dq[0], both, view.seq - first_query, view.head_size,
               view.is_aligned);
  }
};

template <class Tiles, class T>
__device__ void query_gradients(const AttentionView& view, const Inputs<T>& in, T* dq, T* shared) {
  const BlockRows block(view.seq, Tiles::kBlockRows, view.heads, true);
  const int first_query = block.tile * Tiles::kBlockRows, first_row = int(threadIdx.x) / 32 * Tiles::kWarpRows;
  const std::int64_t query_head = view.query_offset(block.sequence, block.head),
                     query_offset = query_head + first_query * view.query_row;
  const std::int64_t key_head = view.key_offset(block.sequence, block.head / view.group);
  const std::int64_t first_number = (std::int64_t(block.sequence) * view.heads + block.head) * view.seq;

  const int num_queries = view.seq - first_query;
  copy_rows<Tiles, Tiles::kBlockRows>(view, shared, in.q + query_offset, view.query_row, num_queries);
  copy_rows<Tiles, Tiles::kBlockRows>(view, shared + Tiles::kKept, in.dout + query_offset, view.query_row, num_queries);
  wait_for_copies();
  __syncthreads();
  const T* const rows = shared + first_row * Tiles::kRow;
  QueryGradientWarp<Tiles> warp(view, first_query + first_row, rows, rows + Tiles::kKept, in.lse + first_number,
                                in.delta + first_number);
  if (Tiles::kKeepsFragments) __syncthreads();  // the tiles come to where the queries and gradients were

  const int first_tile = view.first_key(first_query) / Tiles::kTileRows;
  const int num_tiles = view.last_key(first_query + Tiles::kBlockRows - 1) / Tiles::kTileRows + 1 - first_tile;
  const auto copy = [&](int i, T* pair) {
    const int first_key = (first_tile + i) * Tiles::kTileRows, num_keys = view.seq - first_key;
    const std::int64_t offset = key_head + first_key * view.key_row;
    copy_rows<Tiles, Tiles::kTileRows>(view, pair, in.k + offset, view.key_row, num_keys);
    copy_rows<Tiles, Tiles::kTileRows>(view, pair + Tiles::kTile, in.v + offset, view.key_row, num_keys);
  };
  const auto work = [&](int i, const T* pair) {
    warp.add_keys((first_tile + i) * Tiles::kTileRows, pair, pair + Tiles::kTile);
  };
  for_each_pair<Tiles>(num_tiles, shared + Tiles::kPairsAt, copy, work);
  warp.write(dq + query_head);
}

}  // namespace gpuplan::cuda
