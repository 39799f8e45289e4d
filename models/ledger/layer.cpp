// The decoder layer: norm, attention, residual, norm, MLP, residual; with QK-norms (qwen3, gemma3) and norms after each
// branch (gemma 2 and 3) where the family has them.
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

struct Qkv {
  LocalId q, k, v, fused;
};

Qkv projections(Tape& t, LocalId x) {
  const TrainedModel& m = t.c.model;
  if (!m.qkv.exists()) {
    const LocalId q = linear(t, x, m.q), k = linear(t, x, m.k);
    return {q, k, linear(t, x, m.v), kNoLocal};
  }
  // one linear, then views: q, k, v share its buffer, and their gradients are gathered into one
  const LocalId fused = linear(t, x, m.qkv);
  const Dtype dtype = t.at(fused).dtype;
  const auto part = [&](const char* name, std::int64_t width, Dim dim) {
    const LocalId y = t.wide(name, width, dim, dtype);
    t.memory_op(OpKind::Copy, {fused}, {y}, 2.0 * double(t.at(y).bytes().count));
    t.then_backward(
        [](Tape& tape, const Tape::Step& s) {
          const LocalId whole = tape.grad(s.ids[0]) == kNoLocal ? tape.new_grad(s.ids[0]) : tape.grad(s.ids[0]);
          tape.memory_op(OpKind::Copy, {tape.grad(s.ids[1])}, {whole}, 2.0 * double(tape.at(s.ids[1]).bytes().count));
          tape.set_grad(s.ids[0], whole);
        },
        {fused, y});
    return y;
  };
  const LocalId q = part("q", m.spec.q_width(), Dim::QWidth), k = part("k", m.spec.kv_width(), Dim::KvWidth);
  return {q, k, part("v", m.spec.kv_width(), Dim::KvWidth), kNoLocal};
}

/// LitGPT splits one projection into views; v keeps the whole buffer alive when it is not expanded.
LocalId fused_buffer(Tape& t, LocalId v) {
  if (!t.c.framework.keeps_fused_qkv) return kNoLocal;
  const LocalId rest = t.wide("q and k halves of the fused buffer",
                              t.c.model.spec.q_width() + t.c.model.spec.kv_width(), Dim::QWidth, t.at(v).dtype);
  t.memory_op(OpKind::Copy, {v}, {rest}, 0);
  return rest;
}

LocalId attention_branch(Tape& t, LocalId x) {
  const ModelSpec& m = t.c.model.spec;
  Qkv p = projections(t, x);
  p.fused = fused_buffer(t, p.v);
  if (m.has_qk_norm) {
    p.q = norm(t, p.q, "q, normalised");
    p.k = norm(t, p.k, "k, normalised");
  }
  if (m.position == PositionKind::Rope) {
    p.q = rope(t, p.q, m.q_width(), Dim::QWidth, "q, rotated");
    p.k = rope(t, p.k, m.kv_width(), Dim::KvWidth, "k, rotated");
  }
  return linear(t, attention(t, p.q, p.k, p.v, p.fused), t.c.model.o);
}

}  // namespace

LedgerContext make_context(const TrainedModel& model, const Recipe& recipe, const FrameworkConvention& framework,
                           const Numerics& numerics) {
  const LayerKernels kernels = recipe.kernels.value_or(framework.kernels);
  return {.model = model,
          .recipe = recipe,
          .framework = framework,
          .numerics = numerics,
          .is_fused = kernels == LayerKernels::Fused,
          .accumulates = recipe.grad_accum > 1};
}

void emit_layer(LayerGraph& graph, const LedgerContext& c) {
  Tape t(graph, c);
  const ModelSpec& m = c.model.spec;

  LocalId branch = attention_branch(t, norm(t, kSlotX, "normed input of attention"));
  if (m.has_post_norms) branch = norm(t, branch, "normed attention branch");
  branch = dropout(t, branch, m.residual_dropout);
  const LocalId middle = t.wide("residual after attention", m.hidden_size, Dim::Hidden, c.numerics.residual);
  residual_add(t, kSlotX, branch, middle);
  branch = mlp(t, norm(t, middle, "normed input of MLP"));
  if (m.has_post_norms) branch = norm(t, branch, "normed MLP branch");
  branch = dropout(t, branch, m.residual_dropout);
  residual_add(t, middle, branch, kSlotY);
  t.set_grad(kSlotY, kSlotDy);
  t.unwind();
}

}  // namespace gpuplan
