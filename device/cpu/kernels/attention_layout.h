// Where the rows of each head lie, and which keys a query sees: what both layouts of attention have in common.
#pragma once

#include "device/device.h"
#include "device/training_kernels.h"

namespace gpuplan {
namespace {

struct AttentionLayout {
  /// Elements from one batch entry, head, row to the next.
  struct Strides {
    std::int64_t batch, head, row;
  };
  std::int64_t batch, heads, kv_heads, queries, keys, head_size;
  bool is_causal;
  std::int64_t window;  // 0: none; else causal
  Strides q, kv;        // `out` lies as q does

  std::int64_t num_heads() const { return batch * heads; }
  std::int64_t group() const { return heads / kv_heads; }
  /// Of query head h of num_heads(), and of the key head that it shares.
  std::int64_t q_begin(std::int64_t h) const { return h / heads * q.batch + h % heads * q.head; }
  std::int64_t kv_begin(std::int64_t h) const { return h / heads * kv.batch + h % heads / group() * kv.head; }
};

/// Heads apart: [batch, heads, rows, head_size].
inline AttentionLayout layout_of(const AttentionProblem& p) {
  return {.batch = p.batch,
          .heads = p.heads,
          .kv_heads = p.kv_heads,
          .queries = p.queries,
          .keys = p.keys,
          .head_size = p.head_size,
          .is_causal = p.is_causal,
          .window = 0,
          .q = {p.heads * p.queries * p.head_size, p.queries * p.head_size, p.head_size},
          .kv = {p.kv_heads * p.keys * p.head_size, p.keys * p.head_size, p.head_size}};
}

/// Heads of a position side by side: [batch, seq, heads, head_size].
inline AttentionLayout layout_of(const SequenceAttention& s) {
  return {.batch = s.batch,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .queries = s.seq,
          .keys = s.seq,
          .head_size = s.head_size,
          .is_causal = true,
          .window = s.window,
          .q = {s.seq * s.heads * s.head_size, s.head_size, s.heads * s.head_size},
          .kv = {s.seq * s.kv_heads * s.head_size, s.head_size, s.kv_heads * s.head_size}};
}

}  // namespace
}  // namespace gpuplan
