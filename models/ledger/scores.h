// Matrices of scores, [rows x heads, queries, keys], which eager attention keeps whole.
#pragma once

#include "models/ledger/tape.h"

namespace gpuplan {

struct AttentionShape {
  std::int64_t batch, seq, keys, heads, head_dim, v_head_dim, N, groups;
  /// So few that the bytes which ops move for each of them can be counted.
  std::int64_t scores() const { return checked_product(16 * batch * heads, seq * keys) / 16; }
};
AttentionShape attention_shape(const Tape& tape);

/// Scores and their gradient contract over the head (q k^T); the others over the keys (p v) or the queries (p^T dy).
LayerOp& batched_matmul(Tape& tape, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes,
                        const AttentionShape& shape, std::int64_t head_dim, GemmLayout layout);

/// DeBERTa's attention: scores of contents, and of contents with relative positions.
LocalId disentangled_attention(Tape& tape, LocalId q, LocalId k, LocalId v);

}  // namespace gpuplan
