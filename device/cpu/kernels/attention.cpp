// Attention by tiles with a running softmax (Dao et al. 2022, FlashAttention; Milakov and Gimelshein 2018): the scores
// of 64 queries x 128 keys exist at a time, in cache. Scores are computed transposed, [keys, queries]: then K and V are
// used as they lie, the softmax runs down columns, and only the queries are packed, once per tile.
#include <cmath>
#include <cstring>
#include <limits>

#include <omp.h>

#include "device/cpu/kernels/attention.h"
#include "device/cpu/kernels/tile.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

constexpr std::int64_t kQueries = 64, kKeys = 128;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// Scratch of one thread: fp32 copies of a tile of each operand.
struct Tiles {
  float *q, *k, *v, *scores,
      *out;                  // [head, kQueries], [kKeys, head], [kKeys, width], [kKeys, kQueries], [kQueries, width]
  std::int64_t head, width;  // width: head rounded up to whole vectors
  float largest[kQueries], sum[kQueries], correction[kQueries];

  static std::int64_t floats(std::int64_t head) {
    const std::int64_t width = round_up(head, kLane);
    return round_up(head * kQueries + kKeys * head + kKeys * width + kKeys * kQueries + kQueries * width, 64);
  }
  Tiles(float* memory, std::int64_t head_size) : head(head_size), width(round_up(head_size, kLane)) {
    scores = memory;
    q = scores + kKeys * kQueries;
    v = q + head * kQueries;
    out = v + kKeys * width;
    k = out + kQueries * width;
  }
};

/// [queries, head] to [head, kQueries], times 1 / sqrt(head).
template <class T>
GPUPLAN_INLINE void pack_queries(Tiles& t, const T* q, std::int64_t stride, std::int64_t rows) {
  const float scale = 1.0F / sqrtf(float(t.head));
  std::memset(t.q, 0, std::size_t(t.head * kQueries) * sizeof(float));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < t.head; ++i) t.q[i * kQueries + r] = load(q[r * stride + i]) * scale;
}

/// Key `j` of the tile is seen by queries from `first_query + j` on, and before `window` more (0: all).
GPUPLAN_INLINE void mask(Tiles& t, std::int64_t first_query, std::int64_t window, std::int64_t num_keys,
                         std::int64_t padded_keys) {
  for (std::int64_t j = 0; j < padded_keys; ++j) {
    const std::int64_t from = j < num_keys ? first_query + j : kQueries, until = window > 0 ? from + window : kQueries;
    const std::int64_t hidden = from < kQueries ? from : kQueries;
    for (std::int64_t i = 0; i < hidden; ++i) t.scores[j * kQueries + i] = kMinusInfinity;
    for (std::int64_t i = until > 0 ? until : 0; i < kQueries; ++i) t.scores[j * kQueries + i] = kMinusInfinity;
  }
}

/// Scores become exp(score - largest so far); what was summed before is to be multiplied by `correction`.
GPUPLAN_INLINE void soften(Tiles& t, std::int64_t columns, std::int64_t padded_keys) {
  float largest[kQueries], sum[kQueries];
  for (std::int64_t i = 0; i < columns; ++i) largest[i] = t.largest[i];
  for (std::int64_t j = 0; j < padded_keys; ++j)
    for (std::int64_t i = 0; i < columns; ++i) {
      const float score = t.scores[j * kQueries + i];
      largest[i] = score > largest[i] ? score : largest[i];
    }
  for (std::int64_t i = 0; i < columns; ++i) {
    const float shift = largest[i] > kMinusInfinity ? largest[i] : 0.0F;  // a query that has seen no key yet
    t.correction[i] = fast_exp(t.largest[i] - shift);
    t.largest[i] = largest[i];
    largest[i] = shift;
    sum[i] = t.sum[i] * t.correction[i];
  }
  for (std::int64_t j = 0; j < padded_keys; ++j)
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      const float p = fast_exp(t.scores[j * kQueries + i] - largest[i]);
      t.scores[j * kQueries + i] = p;
      sum[i] += p;
    }
  for (std::int64_t i = 0; i < columns; ++i) t.sum[i] = sum[i];
}

/// One tile of queries of one head against all keys that it sees. `lse`, of these queries, may be null.
template <class T>
void attend(const AttentionLayout& layout, Tiles& t, std::int64_t first_query, const T* q, const T* k, const T* v,
            T* out, float* lse) {
  const std::int64_t seq = layout.shape.seq, window = layout.shape.window;
  const std::int64_t rows = seq - first_query < kQueries ? seq - first_query : kQueries;
  const std::int64_t columns = round_up(rows, kLane), out_rows = round_up(rows, kTileRows);
  const std::int64_t end = first_query + rows;
  const std::int64_t start = window > 0 && first_query >= window ? first_query - window + 1 : 0;
  pack_queries(t, q, layout.q_row, rows);
  for (std::int64_t i = 0; i < kQueries; ++i) {
    t.largest[i] = kMinusInfinity;
    t.sum[i] = 0;
  }
  std::memset(t.out, 0, std::size_t(kQueries * t.width) * sizeof(float));
  for (std::int64_t begin = start; begin < end; begin += kKeys) {
    const std::int64_t keys = end - begin < kKeys ? end - begin : kKeys, padded = round_up(keys, kTileRows);
    widen(t.k, k + begin * layout.kv_row, layout.kv_row, keys, padded, t.head, t.head);
    widen(t.v, v + begin * layout.kv_row, layout.kv_row, keys, padded, t.head, t.width);
    tile_multiply(t.scores, kQueries, {t.k, t.head, 1}, t.q, kQueries, padded, columns, t.head, false);
    mask(t, begin - first_query, window, keys, padded);
    soften(t, columns, padded);
    for (std::int64_t r = 0; r < out_rows; ++r)
      for (std::int64_t i = 0; i < t.width; ++i) t.out[r * t.width + i] *= t.correction[r];
    tile_multiply(t.out, t.width, {t.scores, 1, kQueries}, t.v, t.width, out_rows, t.width, padded, true);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const float factor = t.sum[r] > 0 ? 1.0F / t.sum[r] : 0.0F;  // a query that sees nothing gives zeros
    for (std::int64_t i = 0; i < t.head; ++i) store(out[r * layout.q_row + i], t.out[r * t.width + i] * factor);
    if (lse) lse[r] = t.largest[r] + logf(t.sum[r]);
  }
}

template <class T>
void attend_all(const AttentionLayout& layout, const T* q, const T* k, const T* v, T* out, float* lse) {
  const std::int64_t seq = layout.shape.seq, tiles = ceil_div(seq, kQueries), heads = layout.num_heads(),
                     floats = Tiles::floats(layout.shape.head_size);
  const Workspace workspace(floats * omp_get_max_threads());
  // The last tiles of a head are the longest, so they go first.
#pragma omp parallel for schedule(dynamic) if (heads * tiles > 1)
  for (std::int64_t task = 0; task < heads * tiles; ++task) {
    Tiles t(workspace.data() + floats * omp_get_thread_num(), layout.shape.head_size);
    const std::int64_t h = task % heads, first_query = (tiles - 1 - task / heads) * kQueries;
    const std::int64_t rows = layout.q_begin(h) + first_query * layout.q_row, kv = layout.kv_begin(h);
    attend(layout, t, first_query, q + rows, k + kv, v + kv, out + rows, lse ? lse + h * seq + first_query : nullptr);
  }
}

}  // namespace

void run(const kernels::Attention& k) {
  with_type(k.shape.dtype, [&](auto type) {
    using T = decltype(type);
    attend_all(AttentionLayout(k.shape), static_cast<const T*>(k.q), static_cast<const T*>(k.k),
               static_cast<const T*>(k.v), static_cast<T*>(k.out), k.lse);
  });
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
