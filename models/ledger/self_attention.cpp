// Around the attention kernel: projections, norms on queries and keys, rotation. DeepSeek's latent attention expands
// keys and values from a low-rank latent; a decoder's cross-attention reads the encoder's output. Sources: transformers
// modeling_llama.py, modeling_deepseek_v3.py (DeepseekV3Attention), modeling_t5.py.
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

struct Qkv {
  LocalId q, k, v, fused;
  LocalId gate = kNoLocal;
};

/// One projection is split into views; v keeps the whole buffer alive when it is not expanded. LitGPT joins the
/// projections of every model; of models whose own code has one that is rotated, encoders were counted so.
LocalId fused_buffer(Tape& t, LocalId v) {
  const FrameworkLayers& layers = t.c.framework.layers;
  const bool is_joined = t.c.linear(LinearSlot::Qkv).exists() && t.c.spec().position == PositionKind::Rope &&
                         t.c.is_language() && !t.c.spec().is_causal;
  if (!layers.keeps_fused_qkv && (!is_joined || layers.has_own_models)) return kNoLocal;
  const LocalId rest = t.wide("q and k halves of the fused buffer", t.c.spec().q_width() + t.c.spec().kv_width(),
                              Dim::QWidth, t.at(v).dtype);
  t.memory_op(OpKind::Copy, {v}, {rest}, 0);
  return rest;
}

Qkv plain_projections(Tape& t, LocalId x) {
  const ModelSpec& m = t.c.spec();
  const LinearRef &qkv = t.c.linear(LinearSlot::Qkv), &own_q = t.c.linear(LinearSlot::Q);
  const LinearRef& first = qkv.exists() ? qkv : own_q;
  const ColumnInput in = enter_columns(t, x, first);
  const auto column = [&](const LinearRef& l) { return linear(t, in.value, l, LocalKind::Activation, in.again); };
  if (qkv.exists()) {
    // one linear, then views: q, k, v share its buffer, and their gradients are gathered into one
    const LocalId fused = column(qkv);
    leave_columns(t, x, in);
    const LocalId q = part(t, fused, "q", m.q_width(), Dim::QWidth),
                  k = part(t, fused, "k", m.kv_width(), Dim::KvWidth);
    return {q, k, part(t, fused, "v", m.kv_width(), Dim::KvWidth), kNoLocal};
  }
  LocalId q = column(own_q), gate = kNoLocal;
  if (m.has_attention_gate) {  // both are views of one buffer, of which the gate is copied out
    gate = part(t, q, "gate of attention", m.q_width(), Dim::QWidth);
    q = part(t, q, "q", m.q_width(), Dim::QWidth);
  }
  const LinearRef &own_k = t.c.linear(LinearSlot::K), &own_v = t.c.linear(LinearSlot::V);
  if (!own_k.exists()) {
    leave_columns(t, x, in);
    // of an earlier layer: kept there already, so this counts them twice
    const auto shared = [&](const char* name) {
      const LocalId y = t.wide(name, m.kv_width(), Dim::KvWidth, t.at(q).dtype);
      t.memory_op(OpKind::Copy, {}, {y}, 0);
      return y;
    };
    return {q, shared("k of an earlier layer"), shared("v of an earlier layer"), kNoLocal, gate};
  }
  const LocalId k = column(own_k), v = own_v.exists() ? column(own_v) : k;
  leave_columns(t, x, in);
  return {q, k, v, kNoLocal, gate};
}

/// Attention's output times the sigmoid of its gate. Source: transformers modeling_qwen3_next.py (Qwen3NextAttention).
LocalId gated_output(Tape& t, LocalId attended, LocalId gate) {
  if (gate == kNoLocal) return attended;
  const Local like = t.at(attended);
  const double bytes = double(like.bytes().count);
  const LocalId level = t.tensor("sigmoid of the gate", like.elements, like.dtype, like.dims);
  t.memory_op(OpKind::Activation, {gate}, {level}, 2 * bytes);
  const LocalId y = t.tensor("gated attention output", like.elements, like.dtype, like.dims);
  t.memory_op(OpKind::Multiply, {attended, level}, {y}, 3 * bytes);
  t.explain_saved(level, "gate backward");
  t.explain_saved(attended, "gate backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dattended = tape.new_grad(s.ids[0]), dgate = tape.new_grad(s.ids[1]);
        tape.memory_op(OpKind::Multiply, {tape.grad(s.ids[3]), s.ids[0], s.ids[2]}, {dattended, dgate},
                       9.0 * double(tape.at(dgate).bytes().count))
            .kernels = 3;
        tape.add_grad(s.ids[0], dattended);
        tape.add_grad(s.ids[1], dgate);
      },
      {attended, gate, level, y});
  return y;
}

/// Joins two tensors along the features; the gradient is split again.
LocalId concatenate(Tape& t, LocalId a, LocalId b, const char* name, std::int64_t width, Dim dim) {
  const LocalId y = t.wide(name, width, dim, t.at(a).dtype);
  t.memory_op(OpKind::Copy, {a, b}, {y}, 2.0 * double(t.at(y).bytes().count));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        for (const LocalId id : {s.ids[0], s.ids[1]}) {
          const LocalId dx = tape.new_grad(id);
          tape.memory_op(OpKind::Copy, {tape.grad(s.ids[2])}, {dx}, 2.0 * double(tape.at(dx).bytes().count));
          tape.add_grad(id, dx);
        }
      },
      {a, b, y});
  return y;
}

/// A product whose outputs are cut by heads. Ranks with their own tokens gather its input, here the latent.
LocalId column(Tape& t, LocalId x, const LinearRef& l) {
  const ColumnInput in = enter_columns(t, x, l);
  const LocalId y = linear(t, in.value, l, LocalKind::Activation, in.again);
  leave_columns(t, x, in);
  return y;
}

/// Under tensor parallelism every rank makes the latents whole, of its own tokens, and expands its heads. Source:
/// NVIDIA/Megatron-LM megatron/core/transformer/multi_latent_attention.py @d98e8a64 (linear_q_down_proj and
/// linear_kv_down_proj are duplicated; the rotated part of the keys is gathered).
Qkv latent_projections(Tape& t, LocalId x) {
  const ModelSpec& m = t.c.spec();
  const LatentAttention& l = m.latent;
  const std::int64_t heads = m.num_attention_heads;
  LocalId q_in = x;
  const LinearRef& down = t.c.linear(LinearSlot::QDown);
  if (down.exists()) q_in = norm(t, linear(t, x, down), "query latent, normalised");
  const LocalId whole = column(t, q_in, t.c.linear(down.exists() ? LinearSlot::QUp : LinearSlot::Q));
  const LocalId q_nope = part(t, whole, "q without position", heads * l.nope_head_dim, Dim::QWidth);
  const auto rotated = [&](LocalId of, std::int64_t width, Dim dim, const char* name) {
    return m.position == PositionKind::Rope ? rope(t, of, width, dim, name) : of;
  };
  const LocalId q_rope = rotated(part(t, whole, "q with position", heads * l.rope_head_dim, Dim::QWidth),
                                 heads * l.rope_head_dim, Dim::QWidth, "q, rotated");
  const LocalId q = concatenate(t, q_nope, q_rope, "q", m.q_width(), Dim::QWidth);

  const LocalId packed = linear(t, x, t.c.linear(LinearSlot::KvDown));
  const LocalId latent =
      norm(t, part(t, packed, "key-value latent", l.kv_rank, Dim::Latent, true), "key-value latent, normalised");
  const LocalId k_own = part(t, packed, "k with position", l.rope_head_dim, Dim::KvWidth, true);
  const ColumnInput k_all = enter_columns(t, k_own, false);
  const LocalId k_rope = rotated(k_all.value, l.rope_head_dim, Dim::KvWidth, "k, rotated");
  leave_columns(t, k_own, k_all);
  const LocalId expanded = column(t, latent, t.c.linear(LinearSlot::KvUp));
  const LocalId k_nope = part(t, expanded, "k without position", heads * l.nope_head_dim, Dim::KvWidth);
  const LocalId v = part(t, expanded, "v", heads * l.v_head_dim, Dim::KvWidth);
  const LocalId k = concatenate(t, k_nope, k_rope, "k", m.kv_width(), Dim::KvWidth);  // one rotated part for all heads
  return {q, k, v, kNoLocal};
}

}  // namespace

LocalId self_attention(Tape& t, LocalId x) {
  const ModelSpec& m = t.c.spec();
  if (m.latent.is_present()) {
    const Qkv p = latent_projections(t, x);
    return linear(t, attention_by_heads(t, p.q, p.k, p.v, p.fused, t.c.layer().is_causal), t.c.linear(LinearSlot::O));
  }
  Qkv p = plain_projections(t, x);
  p.fused = fused_buffer(t, p.v);
  const bool makes_keys = t.c.linear(LinearSlot::K).exists() || t.c.linear(LinearSlot::Qkv).exists();
  if (m.has_value_norm && makes_keys) p.v = norm(t, p.v, "v, normalised");
  if (m.qk_norm != QkNorm::None) {
    p.q = norm(t, p.q, "q, normalised", kNoLocal, NormSlot::Q);
    if (makes_keys) p.k = norm(t, p.k, "k, normalised", kNoLocal, NormSlot::K);
  }
  if (m.position == PositionKind::Rope) {
    p.q = rope(t, p.q, m.q_width(), Dim::QWidth, "q, rotated");
    if (makes_keys) p.k = rope(t, p.k, m.kv_width(), Dim::KvWidth, "k, rotated");
  }
  const LocalId attended = attention_by_heads(t, p.q, p.k, p.v, p.fused, t.c.layer().is_causal);
  return linear(t, gated_output(t, attended, p.gate), t.c.linear(LinearSlot::O));
}

LocalId token_mixer(Tape& t, LocalId x) {
  switch (t.c.layer().mixer) {
    case Mixer::Attention: return self_attention(t, x);
    case Mixer::Mamba1: return mamba1(t, x);
    case Mixer::Mamba2: return with_whole_tokens(t, x, mamba2);
    case Mixer::DeltaNet: return with_whole_tokens(t, x, delta_net);
    case Mixer::ShortConvolution: return short_convolution(t, x);
    case Mixer::AttentionAndMamba2: {
      const LocalId scanned = mamba2(t, x), attended = self_attention(t, x);
      const LocalId both = t.stream("attention and Mamba-2 together", t.c.spec().hidden_size, t.at(attended).dtype);
      residual_add(t, attended, scanned, both);
      return both;
    }
    case Mixer::ImageAttention: return cross_attention(t, x);
    case Mixer::None: break;
  }
  return x;
}

LocalId cross_attention(Tape& t, LocalId x) {
  LocalId q = linear(t, x, t.c.linear(LinearSlot::CrossQ));
  LocalId k = linear(t, kSlotMemory, t.c.linear(LinearSlot::CrossK));
  const LocalId v = linear(t, kSlotMemory, t.c.linear(LinearSlot::CrossV));
  if (attends_to_images(t.c.layer().mixer)) {
    q = norm(t, q, "q, normalised");
    k = norm(t, k, "k, normalised");
  }
  return linear(t, attention(t, q, k, v, kNoLocal, false), t.c.linear(LinearSlot::CrossO));
}

}  // namespace gpuplan
