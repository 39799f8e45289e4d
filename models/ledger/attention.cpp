// Attention kernels. Flash and memory-efficient kernels keep q, k, v, the output and the log-sum-exp; eager attention
// keeps the fp32 softmax and its 16-bit cast. Sources: transformers sdpa_attention.py and eager_attention_forward
// (repeat_kv, contiguous output), Dao 2023 (2.5x backward, fp32 dq accumulator).
#include <algorithm>

#include "base/units.h"
#include "models/ledger/scores.h"
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

enum : std::size_t { kQ, kK, kV, kOut, kLse, kProb, kProbLow, kFused, kCapped = kFused };

/// Groups of the sequence that attend within themselves; layers that attend to images have none.
std::int64_t groups_of(const Tape& t) {
  const bool has_groups = t.c.is_language() && !attends_to_images(t.c.layer().mixer);
  return has_groups ? t.c.recipe.attention_groups : 1;
}

}  // namespace

AttentionShape attention_shape(const Tape& t) {
  const ModelSpec& m = t.c.spec();
  const std::int64_t groups = groups_of(t);
  return {t.c.attention_batch() * groups,
          t.c.attention_length() / groups,
          t.c.attention_keys() / groups,
          m.num_attention_heads,
          m.head_dim,
          m.context_width() / m.num_attention_heads,
          t.tokens(),
          m.num_attention_heads / std::max<std::int64_t>(1, m.num_key_value_heads)};
}

namespace {

CostClass cost_class_of(AttentionKernel kernel) {
  return kernel == AttentionKernel::Cudnn    ? CostClass::CudnnAttention
         : kernel == AttentionKernel::Flash3 ? CostClass::Flash3Attention
                                             : CostClass::FlashAttention;
}

LayerOp& flash_op(Tape& t, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes, double factor,
                  bool is_causal) {
  LayerOp& o = t.op(OpKind::Attention, reads, writes);
  o.cost = cost_class_of(attention_kernel_used(t.c.spec(), t.c.recipe, t.c.framework));
  const AttentionShape s = attention_shape(t);
  o.m = s.seq, o.n = s.keys, o.k = t.c.spec().head_dim;
  o.window = t.c.is_windowed ? t.c.spec().sliding_window : 0;
  o.flops = factor * attention_flops(t.c.spec(), s.batch, s.seq,
                                     {.is_causal = is_causal, .is_windowed = t.c.is_windowed, .keys = o.n});
  return o;
}

}  // namespace

LayerOp& batched_matmul(Tape& t, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes,
                        const AttentionShape& s, std::int64_t head_dim, GemmLayout layout) {
  LayerOp& o = t.op(OpKind::BatchedMatmul, reads, writes);
  const bool contracts_head = layout == GemmLayout::Forward;
  o.cost = CostClass::BatchedGemm;
  o.layout = layout;
  o.m = s.seq, o.n = contracts_head ? s.keys : head_dim, o.k = contracts_head ? head_dim : s.keys;
  o.flops = 2.0 * double(s.scores()) * double(head_dim);
  return o;
}

namespace {

LocalId repeat_kv(Tape& t, LocalId x, const char* name, std::int64_t groups) {
  const LocalId y =
      t.tensor(name, groups * t.at(x).elements, t.at(x).dtype, {Dim::Batch, Dim::Seq, Dim::QWidth, Dim::Count});
  t.memory_op(OpKind::RepeatKv, {x}, {y}, 2.0 * double(t.at(y).bytes().count));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::RepeatKv, {tape.grad(s.ids[1])}, {dx}, 2.0 * double(tape.at(s.ids[1]).bytes().count));
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

template <bool IsCausal>
void flash_backward(Tape& t, const Tape::Step& s) {
  const LocalId dq = t.new_grad(s.ids[kQ]), dk = t.new_grad(s.ids[kK]), dv = t.new_grad(s.ids[kV]);
  const ContextParts parts = begin_context_backward(t, s.ids[kQ], s.ids[kK], s.ids[kV]);
  const bool is_whole = parts.others == kNoLocal;
  const LocalId accumulator = t.scratch("dq accumulator in fp32", t.at(s.ids[kQ]).elements, Dtype::F32);
  LayerOp& o =
      flash_op(t, {t.grad(s.ids[kOut]), s.ids[kQ], s.ids[kK], s.ids[kV], s.ids[kOut], s.ids[kLse], parts.others},
               {dq, is_whole ? dk : parts.partial, is_whole ? dv : parts.queries, accumulator}, 2.5, IsCausal);
  o.kernels = 3;
  attend_in_parts(t, parts, o);
  finish_context_backward(t, parts, dk, dv);
  if (s.ids[kFused] != kNoLocal) t.memory_op(OpKind::Copy, {s.ids[kFused]}, {}, 0);
  t.add_grad(s.ids[kQ], dq);
  t.add_grad(s.ids[kK], dk);
  t.add_grad(s.ids[kV], dv);
}

/// The backward pass of probabilities x values: gradients of both.
void values_backward(Tape& t, const Tape::Step& s) {
  const AttentionShape sh = attention_shape(t);
  const LocalId used = s.ids[kProbLow], dout = t.grad(s.ids[kOut]);
  const LocalId dv = t.new_grad(s.ids[kV]);
  batched_matmul(t, {used, dout}, {dv}, sh, sh.v_head_dim, GemmLayout::WeightGradient);
  const LocalId dp = t.new_grad(used);
  batched_matmul(t, {dout, s.ids[kV]}, {dp}, sh, sh.v_head_dim, GemmLayout::Forward);
  t.add_grad(used, dp);
  t.add_grad(s.ids[kV], dv);
}

/// The kernel of softmax reads and writes 16 bit, masks, and has the products scale (FrameworkLayers).
bool fuses_softmax(const Tape& t) {
  return t.c.numerics.compute != Dtype::F32 && !t.c.spec().caps_scores &&
         attention_shape(t).keys < t.c.framework.layers.fused_softmax_keys;
}

/// The gradient of scores before they are scaled, by the framework's chain through fp32.
LocalId chained_softmax_backward(Tape& t, const Tape::Step& s) {
  const AttentionShape sh = attention_shape(t);
  const Dtype low = t.c.numerics.compute;
  const std::array<Dim, 4> dims{Dim::Batch, Dim::QHeads, Dim::Seq, Dim::Keys};
  const double bytes = double(bytes_of(sh.scores(), low).count);
  const LocalId dp = t.cast(t.grad(s.ids[kProbLow]), Dtype::F32, "gradient of probabilities in fp32");
  const LocalId ds = t.tensor("gradient of scores in fp32", sh.scores(), Dtype::F32, dims);
  t.memory_op(OpKind::Softmax, {s.ids[kProb], dp}, {ds}, 4.0 * bytes);
  const LocalId ds_low = t.cast(ds, low, "gradient of scores");
  const LocalId scaled = t.tensor("scaled gradient of scores", sh.scores(), low, dims);
  t.memory_op(OpKind::Scale, {ds_low, s.ids[kCapped]}, {scaled}, 2.0 * bytes);
  return scaled;
}

/// … or by one kernel, which reads probabilities and their gradient.
LocalId fused_softmax_backward(Tape& t, const Tape::Step& s) {
  const AttentionShape sh = attention_shape(t);
  const LocalId ds =
      t.tensor("gradient of scores", sh.scores(), t.c.numerics.compute, {Dim::Batch, Dim::QHeads, Dim::Seq, Dim::Keys});
  t.memory_op(OpKind::Softmax, {s.ids[kProb], t.grad(s.ids[kProbLow])}, {ds}, 3.0 * double(t.at(ds).bytes().count));
  return ds;
}

/// The backward pass of softmax(q k): the gradients of scores, then those of q and k.
void softmax_backward(Tape& t, const Tape::Step& s) {
  const AttentionShape sh = attention_shape(t);
  const LocalId scaled = fuses_softmax(t) ? fused_softmax_backward(t, s) : chained_softmax_backward(t, s);
  const LocalId dq = t.new_grad(s.ids[kQ]), dk = t.new_grad(s.ids[kK]);
  batched_matmul(t, {scaled, s.ids[kK]}, {dq}, sh, sh.head_dim, GemmLayout::InputGradient);
  batched_matmul(t, {scaled, s.ids[kQ]}, {dk}, sh, sh.head_dim, GemmLayout::WeightGradient);
  t.add_grad(s.ids[kQ], dq);
  t.add_grad(s.ids[kK], dk);
}

/// Probabilities of scores: `wide`, which softmax's backward pass reads, and `low`, by which values are weighed.
struct Probabilities {
  LocalId wide = kNoLocal, low = kNoLocal, capped = kNoLocal;
};

Probabilities chained_softmax(Tape& t, LocalId scores) {
  const AttentionShape sh = attention_shape(t);
  const Dtype low = t.c.numerics.compute;
  const std::array<Dim, 4> dims{Dim::Batch, Dim::QHeads, Dim::Seq, Dim::Keys};
  const double bytes = double(bytes_of(sh.scores(), low).count);
  const LocalId capped = t.c.spec().caps_scores ? t.tensor("tanh of scores", sh.scores(), low, dims) : kNoLocal;
  if (capped != kNoLocal) {
    t.memory_op(OpKind::Activation, {scores}, {capped}, 6.0 * bytes).kernels = 3;
    t.explain_saved(capped, "tanh backward");
  }
  const LocalId masked = t.tensor("masked scores", sh.scores(), low, dims);
  t.memory_op(OpKind::Add, {capped != kNoLocal ? capped : scores}, {masked}, 2.0 * bytes);
  LocalId prob = t.tensor("probabilities in fp32", sh.scores(), Dtype::F32, dims);
  t.memory_op(OpKind::Softmax, {masked}, {prob}, 3.0 * bytes);
  LocalId prob_low = prob;
  if (low != Dtype::F32) {
    prob_low = t.tensor("probabilities", sh.scores(), low, dims);
    t.memory_op(OpKind::Cast, {prob}, {prob_low}, 3.0 * bytes);
  }
  return {prob, prob_low, capped};
}

/// Source: NVIDIA/TransformerEngine transformer_engine/pytorch/attention/dot_product_attention/softmax.py @d0067d0d
/// (scaled_masked_softmax_forward; its backward pass saves the result alone).
Probabilities fused_softmax(Tape& t, LocalId scores) {
  const LocalId prob = t.tensor("probabilities", attention_shape(t).scores(), t.c.numerics.compute,
                                {Dim::Batch, Dim::QHeads, Dim::Seq, Dim::Keys});
  t.memory_op(OpKind::Softmax, {scores}, {prob}, 2.0 * double(t.at(prob).bytes().count));
  return {prob, prob};
}

LocalId eager(Tape& t, LocalId q, LocalId k, LocalId v) {
  const AttentionShape sh = attention_shape(t);
  const Dtype low = t.c.numerics.compute;
  const LocalId scores = t.tensor("scores", sh.scores(), low, {Dim::Batch, Dim::QHeads, Dim::Seq, Dim::Keys});
  batched_matmul(t, {q, k}, {scores}, sh, sh.head_dim, GemmLayout::Forward);
  const Probabilities p = fuses_softmax(t) ? fused_softmax(t, scores) : chained_softmax(t, scores);
  t.explain_saved(p.wide, "softmax backward");
  t.then_backward(softmax_backward, {q, k, kNoLocal, kNoLocal, kNoLocal, p.wide, p.low, p.capped});
  const LocalId used = dropout(t, p.low, t.c.spec().attention_dropout);
  t.explain_saved(used, "gradient of the values");
  const LocalId out = t.wide("attention output", t.c.spec().context_width(), Dim::QWidth, low);
  batched_matmul(t, {used, v}, {out}, sh, sh.v_head_dim, GemmLayout::InputGradient);
  t.then_backward(values_backward, {q, k, v, out, kNoLocal, p.wide, used, kNoLocal});
  return out;
}

LocalId flash(Tape& t, LocalId q, LocalId k, LocalId v, LocalId fused, bool is_causal) {
  const AttentionShape sh = attention_shape(t);
  const LocalId out = t.wide("attention output", t.c.spec().context_width(), Dim::QWidth, t.c.numerics.compute);
  const LocalId lse =
      t.tensor("log-sum-exp", sh.N * sh.heads, Dtype::F32, {Dim::Batch, Dim::QHeads, Dim::Seq, Dim::Count});
  const ContextParts parts = begin_context_forward(t, k, v, t.at(out).elements);
  LayerOp& o = flash_op(t, {q, k, v, parts.others}, {out, lse, parts.merged, parts.outputs}, 1.0, is_causal);
  o.saves_compute_output = true;
  attend_in_parts(t, parts, o);
  finish_context_forward(t, parts);
  t.explain_saved(out, "attention backward");
  t.explain_saved(lse, "attention backward");
  if (fused != kNoLocal) t.explain_saved(fused, "v is a view of it");
  t.then_backward(is_causal ? flash_backward<true> : flash_backward<false>,
                  {q, k, v, out, lse, kNoLocal, kNoLocal, fused});
  return out;
}

}  // namespace

double attention_flops(const ModelSpec& m, std::int64_t batch, std::int64_t seq, AttentionReach reach) {
  const std::int64_t keys = reach.keys > 0 ? reach.keys : seq;
  const double full = 2.0 * double(batch) * double(seq) * double(keys) * double(m.q_width() + m.context_width());
  const double s = double(keys), w = reach.is_windowed ? std::min(double(m.sliding_window), s) : s;
  if (reach.skips_masked && !reach.is_causal && reach.is_windowed)
    return full * (w - w * w / (4 * s)) / s;  // as many keys on either side, fewer at the ends
  if (!reach.skips_masked || !reach.is_causal) return full;
  return full * (w - w * w / (2 * s)) / s;  // mean keys per query of a causal band of width w, over s
}

namespace {

/// Bytes over those of the result. Fused: read once, written once. As framework ops, forward: x cos (2), minus its half
/// (1), cat (2), times sin (2), sum (3); backward the same with the slices' gradients padded with zeros (2 more).
/// Source: transformers modeling_llama.py apply_rotary_pos_emb, rotate_half.
double rope_traffic(const Tape& t, bool is_backward) { return t.c.is_fused ? 2 : is_backward ? 12 : 10; }

}  // namespace

LocalId rope(Tape& t, LocalId x, std::int64_t width, Dim dim, const char* name) {
  const Dtype dtype = t.at(x).dtype;
  const LocalId y = t.wide(name, width, dim, dtype);
  const std::int64_t elements = t.at(y).elements;
  const LocalId temp = t.c.is_fused ? kNoLocal : t.scratch("rotated halves", 2 * elements, dtype);
  const double traffic = rope_traffic(t, false) * double(t.at(y).bytes().count);
  t.memory_op(OpKind::Rope, {x}, {y, temp}, traffic).kernels = t.c.is_fused ? 1 : 5;
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        const LocalId scratch =
            tape.c.is_fused ? kNoLocal : tape.scratch("rotated halves", 2 * tape.at(dx).elements, tape.at(dx).dtype);
        tape.memory_op(OpKind::Rope, {tape.grad(s.ids[1])}, {dx, scratch},
                       rope_traffic(tape, true) * double(tape.at(dx).bytes().count))
            .kernels = tape.c.is_fused ? 1 : 7;
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

AttentionKernel attention_kernel_used(const ModelSpec& spec, const Recipe& recipe,
                                      const FrameworkConvention& framework) {
  const bool must_materialise = spec.materialises_scores && !framework.layers.has_own_models;
  const bool cannot_cap = spec.caps_scores && recipe.attention == AttentionKernel::Sdpa;
  return must_materialise || cannot_cap || spec.relative_scores.is_present() ? AttentionKernel::Eager
                                                                             : recipe.attention;
}

LocalId attention(Tape& t, LocalId q, LocalId k, LocalId v, LocalId fused, bool is_causal) {
  const DtypePolicy& n = t.c.numerics;
  const ModelSpec& spec = t.c.spec();
  const AttentionKernel kernel = attention_kernel_used(spec, t.c.recipe, t.c.framework);
  q = convert(t, q, n.compute, "q in 16 bit");
  k = convert(t, k, n.compute, "k in 16 bit");
  v = convert(t, v, n.compute, "v in 16 bit");
  const std::int64_t groups = attention_shape(t).groups;
  const bool shifts = groups_of(t) > 1;
  const bool expands = groups > 1 && (shifts || kernel == AttentionKernel::Eager ||
                                      (kernel == AttentionKernel::Sdpa && t.c.framework.layers.repeats_kv));
  if (expands) {
    k = repeat_kv(t, k, "k, expanded", groups);
    v = repeat_kv(t, v, "v, expanded", groups);
  }
  const auto moved = [&](LocalId x, const char* name) {
    return shifts ? copied(t, x, name, t.at(x).elements, t.at(x).elements) : x;
  };
  q = moved(q, "q, shifted");
  k = moved(k, "k, shifted");
  v = moved(v, "v, shifted");
  t.explain_saved(q, "attention backward");
  t.explain_saved(k, "attention backward");
  t.explain_saved(v, "attention backward");
  LocalId out = spec.relative_scores.is_present()  ? disentangled_attention(t, q, k, v)
                : kernel == AttentionKernel::Eager ? eager(t, q, k, v)
                                                   : flash(t, q, k, v, expands ? kNoLocal : fused, is_causal);
  const FrameworkLayers& layers = t.c.framework.layers;
  const bool is_flash = kernel == AttentionKernel::Flash || kernel == AttentionKernel::Flash3;
  const bool copies = kernel == AttentionKernel::Eager ||
                      (kernel == AttentionKernel::Sdpa && layers.copies_attention_output) ||
                      (is_flash && layers.copies_flash_output && t.c.attention_batch() > 1);
  if (shifts) out = copied(t, out, "attention output, shifted back", t.at(out).elements, t.at(out).elements);
  if (!copies) return out;
  const LocalId copy = t.wide("attention output, contiguous", spec.context_width(), Dim::QWidth, n.compute);
  t.memory_op(OpKind::Copy, {out}, {copy}, 2.0 * double(t.at(copy).bytes().count));
  t.then_backward([](Tape& tape, const Tape::Step& s) { tape.set_grad(s.ids[0], tape.grad(s.ids[1])); }, {out, copy});
  return copy;
}

}  // namespace gpuplan
