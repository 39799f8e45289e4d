// dq of attention: a block per rows of queries, which goes through the keys.
#pragma once

#include "device/cuda/attention_gradients.cuh"

namespace gpuplan::cuda {

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
      if (query >= view.queries) continue;
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

  /// To the head's first row.
  __device__ void write(T* to) const {
    const float scale = rsqrtf(float(view.head_size)), both[2] = {scale, scale};
    write_rows(to + first_query * view.query_row, view.query_row, dq[0], both, view.queries - first_query,
               view.head_size, view.is_aligned);
  }
};

template <class Tiles, class T>
__device__ void query_gradients(const AttentionView& view, const Inputs<T>& in, T* dq, T* shared) {
  const BlockRows block(view.queries, Tiles::kBlockRows, view.heads, true);
  const int first_query = block.tile * Tiles::kBlockRows, first_row = int(threadIdx.x) / 32 * Tiles::kWarpRows;
  const std::int64_t query_head = view.query_offset(block.sequence, block.head),
                     query_offset = query_head + first_query * view.query_row;
  const std::int64_t key_head = view.key_offset(block.sequence, block.head / view.group);
  const std::int64_t first_number = (std::int64_t(block.sequence) * view.heads + block.head) * view.queries;

  const int num_queries = view.queries - first_query;
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
    const int first_key = (first_tile + i) * Tiles::kTileRows, num_keys = view.keys - first_key;
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
