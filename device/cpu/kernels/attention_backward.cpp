// Gradients of causal attention by tiles of 64 queries x 64 keys, whose probabilities are computed again (Dao et al.
// 2022, FlashAttention, algorithm 4). With s = scale q k^T, p = exp(s - lse), delta = sum over a row of dout out:
//   dv = p^T dout,  ds = scale p (dout v^T - delta),  dq = ds k,  dk = ds^T q.
#include <cmath>

#include <omp.h>

#include "device/cpu/kernels/attention.h"
#include "device/cpu/kernels/tile.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

constexpr std::int64_t kTile = 64;

GPUPLAN_INLINE std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// Scratch of one thread, all fp32. Rows are `width` long: head_size rounded up to whole vectors.
struct Tiles {
  std::int64_t head, width;
  float *q, *dout, *dq, *k, *v, *dk, *dv;  // [kTile, width]
  float *k_columns, *v_columns;            // [head, kTile]
  float *p, *ds;                           // [kTile queries, kTile keys]
  float delta[kTile], lse[kTile];

  static std::int64_t floats(std::int64_t head) { return (7 * round_up(head, kLane) + 2 * head + 2 * kTile) * kTile; }
  Tiles(float* memory, std::int64_t head_size) : head(head_size), width(round_up(head_size, kLane)) {
    for (float** const tile : {&q, &dout, &dq, &k, &v, &dk, &dv}) *tile = memory, memory += kTile * width;
    for (float** const tile : {&k_columns, &v_columns}) *tile = memory, memory += kTile * head;
    for (float** const tile : {&p, &ds}) *tile = memory, memory += kTile * kTile;
  }
};

GPUPLAN_INLINE void turn(float* to, const float* rows, std::int64_t head, std::int64_t width) {
  for (std::int64_t i = 0; i < head; ++i)
    for (std::int64_t r = 0; r < kTile; ++r) to[i * kTile + r] = rows[r * width + i];
}

template <class T>
GPUPLAN_INLINE float dot(const float* a, const T* b, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * load(b[i]);
  return sum;
}

GPUPLAN_INLINE void clear(float* tile, std::int64_t width) {
  std::memset(tile, 0, std::size_t(kTile * width) * sizeof(float));
}

template <class T>
struct Backward {
  AttentionLayout layout;
  const T *dout, *q, *k, *v, *out;
  const float* lse;
  T *dq, *dk, *dv;
  float* scratch;  // sums of dq that are not complete: [heads, seq, head_size]

  std::int64_t tiles() const { return ceil_div(layout.shape.seq, kTile); }
  std::int64_t rows(std::int64_t tile) const { return least(layout.shape.seq - tile * kTile, kTile); }
  std::int64_t q_row(std::int64_t h, std::int64_t tile) const {
    return layout.q_begin(h) + tile * kTile * layout.q_row;
  }
  std::int64_t kv_row(std::int64_t h, std::int64_t tile) const {
    return layout.kv_begin(h) + tile * kTile * layout.kv_row;
  }

  /// Tiles that see each other: of keys, for a tile of queries, up to its own; of queries, for a tile of keys, from its
  /// own on.
  std::int64_t first_keys(std::int64_t i) const {
    return layout.shape.window > 0 && i * kTile >= layout.shape.window ? (i * kTile - layout.shape.window + 1) / kTile
                                                                       : 0;
  }
  std::int64_t last_queries(std::int64_t j) const {
    return layout.shape.window > 0 ? least(tiles() - 1, (j * kTile + kTile - 1 + layout.shape.window - 1) / kTile)
                                   : tiles() - 1;
  }

  void load_queries(Tiles& t, std::int64_t h, std::int64_t i) const {
    const std::int64_t begin = q_row(h, i), stride = layout.q_row, count = rows(i);
    widen(t.q, q + begin, stride, count, kTile, t.head, t.width);
    widen(t.dout, dout + begin, stride, count, kTile, t.head, t.width);
    for (std::int64_t r = 0; r < count; ++r) {
      t.delta[r] = dot(t.dout + r * t.width, out + begin + r * stride, t.head);
      t.lse[r] = lse[h * layout.shape.seq + i * kTile + r];
    }
    for (std::int64_t r = count; r < kTile; ++r) {
      t.delta[r] = 0;
      t.lse[r] = INFINITY;  // no probabilities in rows that do not exist
    }
  }

  void load_keys(Tiles& t, std::int64_t h, std::int64_t j) const {
    const std::int64_t begin = kv_row(h, j), stride = layout.kv_row, count = rows(j);
    widen(t.k, k + begin, stride, count, kTile, t.head, t.width);
    widen(t.v, v + begin, stride, count, kTile, t.head, t.width);
    turn(t.k_columns, t.k, t.head, t.width);
    turn(t.v_columns, t.v, t.head, t.width);
  }

  /// p and ds of the loaded tiles. Keys beyond the last are hidden from every query that exists, by causality.
  void score(Tiles& t, std::int64_t i, std::int64_t j) const {
    const std::int64_t count = round_up(rows(i), kTileRows), columns = round_up(rows(j), kLane);
    tile_multiply(t.p, kTile, {t.q, t.width, 1}, t.k_columns, kTile, count, columns, t.head, false);
    tile_multiply(t.ds, kTile, {t.dout, t.width, 1}, t.v_columns, kTile, count, columns, t.head, false);
    const float scale = 1.0F / sqrtf(float(t.head));
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t own = (i - j) * kTile + r;  // the query's place among these keys
      const auto last = std::int32_t(least(own, kTile));
      const auto first =
          layout.shape.window > 0 && own >= layout.shape.window ? std::int32_t(own - layout.shape.window + 1) : 0;
      const float shift = t.lse[r], delta = t.delta[r];
      float *const p = t.p + r * kTile, *const ds = t.ds + r * kTile;
#pragma omp simd
      for (std::int32_t c = 0; c < std::int32_t(columns); ++c) {
        const float probability = fast_exp(p[c] * scale - shift), seen = c <= last && c >= first ? probability : 0.0F;
        p[c] = seen;
        ds[c] = seen * (ds[c] - delta) * scale;
      }
    }
  }

  void add_to_queries(Tiles& t, std::int64_t i, std::int64_t j) const {
    tile_multiply(t.dq, t.width, {t.ds, kTile, 1}, t.k, t.width, round_up(rows(i), kTileRows), t.width, rows(j), true);
  }
  void add_to_keys(Tiles& t, std::int64_t i, std::int64_t j) const {
    const std::int64_t keys = round_up(rows(j), kTileRows);
    tile_multiply(t.dv, t.width, {t.p, 1, kTile}, t.dout, t.width, keys, t.width, rows(i), true);
    tile_multiply(t.dk, t.width, {t.ds, 1, kTile}, t.q, t.width, keys, t.width, rows(i), true);
  }

  /// dq of one tile of queries.
  void queries_alone(Tiles& t, std::int64_t h, std::int64_t i) const {
    load_queries(t, h, i);
    clear(t.dq, t.width);
    for (std::int64_t j = first_keys(i); j <= i; ++j) {
      load_keys(t, h, j);
      score(t, i, j);
      add_to_queries(t, i, j);
    }
    narrow(dq + q_row(h, i), layout.q_row, t.dq, rows(i), t.head, t.width);
  }

  /// The part of dq that comes from one tile of keys; `scratch` keeps it until the last tile, which is the queries'
  /// own.
  void queries_beside(Tiles& t, std::int64_t h, std::int64_t i, std::int64_t j) const {
    float* const kept = scratch + (h * layout.shape.seq + i * kTile) * t.head;
    if (j == first_keys(i))
      clear(t.dq, t.width);
    else
      widen(t.dq, kept, t.head, rows(i), kTile, t.head, t.width);
    add_to_queries(t, i, j);
    if (j == i)
      narrow(dq + q_row(h, i), layout.q_row, t.dq, rows(i), t.head, t.width);
    else
      narrow(kept, t.head, t.dq, rows(i), t.head, t.width);
  }

  /// dk and dv of one tile of keys, and its part of dq if asked. `first` is the first of the query heads that share
  /// these keys.
  void keys(Tiles& t, std::int64_t first, std::int64_t j, bool with_queries) const {
    load_keys(t, first, j);
    clear(t.dk, t.width);
    clear(t.dv, t.width);
    for (std::int64_t h = first; h < first + layout.group(); ++h)
      for (std::int64_t i = j; i <= last_queries(j); ++i) {
        load_queries(t, h, i);
        score(t, i, j);
        add_to_keys(t, i, j);
        if (with_queries) queries_beside(t, h, i, j);
      }
    narrow(dk + kv_row(first, j), layout.kv_row, t.dk, rows(j), t.head, t.width);
    narrow(dv + kv_row(first, j), layout.kv_row, t.dv, rows(j), t.head, t.width);
  }
};

/// One task per key head does 5 products for a pair of tiles; a task per tile of queries or keys does 3 or 4 of them, 7
/// in all, but leaves no thread idle. Both add up in the same order.
template <class T>
void add_up(const Backward<T>& backward) {
  const AttentionLayout& layout = backward.layout;
  const std::int64_t kv_heads = layout.shape.batch * layout.shape.kv_heads, heads = layout.num_heads(),
                     tiles = backward.tiles(), threads = omp_get_max_threads(),
                     floats = Tiles::floats(layout.shape.head_size);
  const bool is_by_head = ceil_div(kv_heads, threads) * 5 * threads <= kv_heads * 7;
  const Workspace workspace(floats * threads);
  const std::int64_t num_tasks = is_by_head ? kv_heads : (kv_heads + heads) * tiles;
#pragma omp parallel for schedule(dynamic) if (num_tasks > 1)
  for (std::int64_t task = 0; task < num_tasks; ++task) {
    Tiles t(workspace.data() + floats * omp_get_thread_num(), layout.shape.head_size);
    const std::int64_t late =
        task - kv_heads * tiles;  // long tasks first: keys that many see, then queries that see many
    if (is_by_head)
      for (std::int64_t j = 0; j < tiles; ++j) backward.keys(t, task * layout.group(), j, true);
    else if (late < 0)
      backward.keys(t, task % kv_heads * layout.group(), task / kv_heads, false);
    else
      backward.queries_alone(t, late % heads, tiles - 1 - late / heads);
  }
}

}  // namespace

void run(const kernels::AttentionBackward& k) {
  typed(
      [&]<class T>(T* dq) {
        const auto read = [](const void* data) { return static_cast<const T*>(data); };
        add_up(Backward<T>{.layout = AttentionLayout(k.shape),
                           .dout = read(k.dout),
                           .q = read(k.q),
                           .k = read(k.k),
                           .v = read(k.v),
                           .out = read(k.out),
                           .lse = k.lse,
                           .dq = dq,
                           .dk = static_cast<T*>(k.dk),
                           .dv = static_cast<T*>(k.dv),
                           .scratch = k.scratch});
      },
      Numbers{k.dq, k.shape.dtype});
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
