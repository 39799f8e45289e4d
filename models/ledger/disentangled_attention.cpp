// DeBERTa's attention (He et al. 2021, arXiv 2006.03654). Every query is also multiplied with the keys of all relative
// positions, every key with their queries, and each pair of tokens gathers the column of its distance. Backward of a
// gather keeps the whole products and an index of 8 bytes per pair of positions, which all heads and rows share. The
// softmax is one kernel in the scores' dtype, in fp32 under autocast. No flash path exists. Source:
// transformers 4.58 (8b-is/transformers @e8c4f0b7) modeling_deberta_v2.py (DisentangledSelfAttention); torch
// derivatives.yaml (gather).
#include "base/units.h"
#include "models/ledger/scores.h"
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

const std::array<Dim, 4> kScoreDims{Dim::Batch, Dim::QHeads, Dim::Seq, Dim::Keys};

LocalId scores_tensor(Tape& t, const char* name, Dtype dtype) {
  return t.tensor(name, attention_shape(t).scores(), dtype, kScoreDims);
}

/// [rows x heads, of, other] = a b^T with its backward: two products more.
LocalId product_of_heads(Tape& t, LocalId a, LocalId b, const char* name, std::int64_t other) {
  AttentionShape s = attention_shape(t);
  s.keys = other;
  const LocalId y = t.tensor(name, s.scores(), t.at(a).dtype, kScoreDims);
  batched_matmul(t, {a, b}, {y}, s, s.head_dim, GemmLayout::Forward);
  t.explain_saved(a, "scores backward");
  t.explain_saved(b, "scores backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& step) {
        AttentionShape shape = attention_shape(tape);
        const LocalId dy = tape.grad(step.ids[2]);
        shape.keys = tape.at(dy).elements / (shape.batch * shape.heads * shape.seq);
        const LocalId da = tape.new_grad(step.ids[0]), db = tape.new_grad(step.ids[1]);
        batched_matmul(tape, {dy, step.ids[1]}, {da}, shape, shape.head_dim, GemmLayout::InputGradient);
        batched_matmul(tape, {dy, step.ids[0]}, {db}, shape, shape.head_dim, GemmLayout::WeightGradient);
        tape.add_grad(step.ids[0], da);
        tape.add_grad(step.ids[1], db);
      },
      {a, b, y});
  return y;
}

/// x times a number.
LocalId scaled_down(Tape& t, LocalId x, const char* name) {
  const Local like = t.at(x);
  const LocalId y = t.tensor(name, like.elements, like.dtype, like.dims);
  t.memory_op(OpKind::Scale, {x}, {y}, 2.0 * double(like.bytes().count));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Scale, {tape.grad(s.ids[1])}, {dx}, 2.0 * double(tape.at(dx).bytes().count));
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

/// Projected relative positions, once for every row.
LocalId projected_positions(Tape& t, LocalId table, LinearSlot shared, LinearSlot own, const char* name) {
  const LinearRef& l = t.c.linear(t.c.spec().relative_scores.shares_projections ? shared : own);
  const LocalId once = convert(t, linear(t, table, l), t.c.numerics.compute, "projected positions in 16 bit");
  return copied(t, once, name, t.c.attention_batch() * t.at(once).elements, t.at(once).elements);
}

struct DistanceScores {
  LocalId gathered = kNoLocal, scaled = kNoLocal;
};

/// The product of each pair of tokens with the position that stands for their distance.
DistanceScores distance_scores(Tape& t, LocalId content, LocalId positions, const char* products, const char* name) {
  const AttentionShape s = attention_shape(t);
  const LocalId all = product_of_heads(t, content, positions, products, t.c.spec().relative_scores.positions);
  const LocalId index =
      t.tensor("columns of distances", s.seq * s.keys, Dtype::I64, {Dim::Seq, Dim::Keys, Dim::Count, Dim::Count});
  t.memory_op(OpKind::Copy, {}, {index}, 3.0 * double(t.at(index).bytes().count)).kernels = 2;
  const LocalId y = scores_tensor(t, name, t.at(all).dtype);
  const double bytes = double(t.at(y).bytes().count);
  t.memory_op(OpKind::Copy, {all, index}, {y}, 2.0 * bytes + 8.0 * double(s.scores()));
  t.explain_saved(all, "gather backward");
  t.explain_saved(index, "gather backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& step) {
        const LocalId dy = tape.grad(step.ids[2]), dall = tape.new_grad(step.ids[0]);
        tape.memory_op(OpKind::Copy, {dy, step.ids[0], step.ids[1]}, {dall},
                       3.0 * double(tape.at(dy).bytes().count) + 8.0 * double(tape.at(dy).elements) +
                           double(tape.at(dall).bytes().count))
            .kernels = 2;
        tape.add_grad(step.ids[0], dall);
      },
      {all, index, y});
  return {y, scaled_down(t, y, "scores of distances, scaled")};
}

/// a + b, in a new tensor; the gradient flows to both.
LocalId added(Tape& t, LocalId a, LocalId b, const char* name) {
  const LocalId y = scores_tensor(t, name, t.at(a).dtype);
  t.memory_op(OpKind::Add, {a, b}, {y}, 3.0 * double(t.at(y).bytes().count));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        tape.set_grad(s.ids[0], tape.grad(s.ids[2]));
        tape.set_grad(s.ids[1], tape.grad(s.ids[2]));
      },
      {a, b, y});
  return y;
}

/// Sums what distances add to a score, in place into the first. Both stay until the layer's forward pass is done, as
/// local variables of the modelling code do.
LocalId sum_in_place(Tape& t, const DistanceScores& one, const DistanceScores& two) {
  if (one.scaled == kNoLocal || two.scaled == kNoLocal) return one.scaled == kNoLocal ? two.scaled : one.scaled;
  LayerOp& o = t.memory_op(OpKind::Add, {two.scaled, one.gathered, two.gathered, one.scaled}, {one.scaled},
                           3.0 * double(t.at(one.scaled).bytes().count));
  o.accumulates = true;
  t.then_backward([](Tape& tape, const Tape::Step& s) { tape.set_grad(s.ids[1], tape.grad(s.ids[0])); },
                  {one.scaled, two.scaled});
  return one.scaled;
}

/// Masked, then the softmax over the keys. `beside` is alive at it.
LocalId probabilities(Tape& t, LocalId scores, LocalId beside) {
  const AttentionShape s = attention_shape(t);
  const double bytes = double(t.at(scores).bytes().count);
  const LocalId mask =
      t.tensor("mask", s.batch * s.seq * s.keys, Dtype::Bool, {Dim::Batch, Dim::Seq, Dim::Keys, Dim::Count});
  t.memory_op(OpKind::Copy, {}, {mask}, 2.0 * double(t.at(mask).bytes().count));
  const LocalId masked = scores_tensor(t, "masked scores", t.at(scores).dtype);
  t.memory_op(OpKind::Add, {scores, mask}, {masked}, 2.0 * bytes);
  t.explain_saved(mask, "mask backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& step) {
        const LocalId ds = tape.new_grad(step.ids[0]);
        tape.memory_op(OpKind::Scale, {tape.grad(step.ids[2]), step.ids[1]}, {ds},
                       2.0 * double(tape.at(ds).bytes().count));
        tape.add_grad(step.ids[0], ds);
      },
      {scores, mask, masked});
  const LocalId wide =
      convert(t, masked, t.c.numerics.is_autocast ? Dtype::F32 : t.at(masked).dtype, "masked scores in fp32");
  const LocalId y = scores_tensor(t, "probabilities", t.at(wide).dtype);
  t.memory_op(OpKind::Softmax, {wide, beside}, {y}, 2.0 * double(t.at(y).bytes().count));
  t.explain_saved(y, "softmax backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& step) {
        const LocalId ds = tape.new_grad(step.ids[0]);
        tape.memory_op(OpKind::Softmax, {step.ids[1], tape.grad(step.ids[1])}, {ds},
                       3.0 * double(tape.at(ds).bytes().count));
        tape.add_grad(step.ids[0], ds);
      },
      {wide, y});
  return y;
}

/// Probabilities times values.
LocalId weighted_values(Tape& t, LocalId used, LocalId v) {
  const AttentionShape s = attention_shape(t);
  const LocalId out = t.wide("attention output", t.c.spec().context_width(), Dim::QWidth, t.at(v).dtype);
  batched_matmul(t, {used, v}, {out}, s, s.v_head_dim, GemmLayout::InputGradient);
  t.explain_saved(used, "gradient of the values");
  t.then_backward(
      [](Tape& tape, const Tape::Step& step) {
        const AttentionShape shape = attention_shape(tape);
        const LocalId dout = tape.grad(step.ids[2]), dv = tape.new_grad(step.ids[1]), dp = tape.new_grad(step.ids[0]);
        batched_matmul(tape, {step.ids[0], dout}, {dv}, shape, shape.v_head_dim, GemmLayout::WeightGradient);
        batched_matmul(tape, {dout, step.ids[1]}, {dp}, shape, shape.v_head_dim, GemmLayout::Forward);
        tape.add_grad(step.ids[0], dp);
        tape.add_grad(step.ids[1], dv);
      },
      {used, v, out});
  return out;
}

}  // namespace

LocalId disentangled_attention(Tape& t, LocalId q, LocalId k, LocalId v) {
  const RelativeScores& relative = t.c.spec().relative_scores;
  const LocalId scores =
      product_of_heads(t, q, scaled_down(t, k, "k, scaled"), "scores of contents", attention_shape(t).keys);
  LocalId table = t.tensor("relative positions", relative.positions * t.c.spec().hidden_size, t.c.numerics.residual,
                           {Dim::Rows, Dim::Hidden, Dim::Count, Dim::Count});
  t.memory_op(OpKind::Copy, {}, {table}, double(t.at(table).bytes().count));
  table = dropout(t, table, t.c.spec().residual_dropout);
  DistanceScores of_queries, of_keys;
  if (relative.content_to_position)
    of_queries =
        distance_scores(t, q, projected_positions(t, table, LinearSlot::K, LinearSlot::PositionK, "keys of positions"),
                        "queries times positions", "scores of a query's distances");
  if (relative.position_to_content)
    of_keys = distance_scores(
        t, k, projected_positions(t, table, LinearSlot::Q, LinearSlot::PositionQ, "queries of positions"),
        "keys times positions", "scores of a key's distances");
  const LocalId beside = sum_in_place(t, of_queries, of_keys);
  const LocalId all = beside == kNoLocal ? scores : added(t, scores, beside, "scores");
  const LocalId dropped = dropout(t, probabilities(t, all, beside), t.c.spec().attention_dropout);
  return weighted_values(t, convert(t, dropped, t.at(v).dtype, "probabilities in 16 bit"), v);
}

}  // namespace gpuplan
