// The layers of a model: residual branches with norms before, after or around them, one after the other or side by side
// (GPT-J, Falcon), cross-attention in a decoder that has an encoder (T5), and the bridge between the two.
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

/// One branch of the residual stream: norms where the family has them, the branch itself, dropout.
template <class Branch>
LocalId branch_of(Tape& t, LocalId x, const char* before, const char* after, Branch branch,
                  NormSlot slot = NormSlot::None) {
  const ModelSpec& m = t.c.model.spec;
  const bool norms_before = m.norm_placement == NormPlacement::Pre || m.norm_placement == NormPlacement::Sandwich;
  const bool norms_after = m.norm_placement == NormPlacement::Sandwich || m.norm_placement == NormPlacement::PostBranch;
  LocalId y = branch(t, norms_before ? norm(t, x, before, kNoLocal, slot) : x);
  if (norms_after) y = norm(t, y, after);
  return dropout(t, y, m.residual_dropout);
}

LocalId residual_tensor(Tape& t, const char* name) {
  return t.wide(name, t.c.model.spec.hidden_size, Dim::Hidden, t.c.numerics.residual);
}

/// x + branch, normalised where the family norms the sum (BERT). `y` receives the result.
void close_branch(Tape& t, LocalId x, LocalId branch, LocalId y) {
  if (t.c.model.spec.norm_placement != NormPlacement::PostResidual) return residual_add(t, x, branch, y);
  const LocalId sum = residual_tensor(t, "residual sum before its norm");
  residual_add(t, x, branch, sum);
  norm(t, sum, "normed residual", y);
}

void sequential_layer(Tape& t) {
  const LocalId attended =
      branch_of(t, kSlotX, "normed input of attention", "normed attention branch", self_attention, NormSlot::Attention);
  LocalId middle = residual_tensor(t, "residual after attention");
  close_branch(t, kSlotX, attended, middle);
  if (t.c.layer().has_cross_attention) {
    const LocalId crossed =
        branch_of(t, middle, "normed input of cross-attention", "normed cross-attention branch", cross_attention);
    const LocalId next = residual_tensor(t, "residual after cross-attention");
    close_branch(t, middle, crossed, next);
    middle = next;
  }
  close_branch(t, middle, branch_of(t, middle, "normed input of MLP", "normed MLP branch", mlp, NormSlot::Mlp), kSlotY);
}

/// Attention and MLP side by side, on one norm or two.
void parallel_layer(Tape& t) {
  const ModelSpec& m = t.c.model.spec;
  const LocalId one = norm(t, kSlotX, "normed input of attention");
  const LocalId two = m.residual == ResidualKind::ParallelTwoNorms ? norm(t, kSlotX, "normed input of MLP") : one;
  const LocalId attended = dropout(t, self_attention(t, one), m.residual_dropout);
  const LocalId fed = dropout(t, mlp(t, two), m.residual_dropout);
  const LocalId both = t.wide("attention and MLP together", m.hidden_size, Dim::Hidden, t.at(fed).dtype);
  residual_add(t, fed, attended, both);
  residual_add(t, kSlotX, both, kSlotY);
}

/// The encoder's last norm makes the memory; the decoder's stream starts at its own embedding.
void bridge(Tape& t) {
  norm(t, kSlotX, "encoder output", kSlotMemory);
  const double bytes = double(t.at(kSlotY).bytes().count);
  t.memory_op(OpKind::Embed, {}, {kSlotY}, 2.0 * bytes);
  if (!t.c.model.trains_embedding) return;
  t.then_backward(
      [](Tape& tape, const Tape::Step&) {
        const ModelSpec& spec = tape.c.model.spec;
        const DtypePolicy& n = tape.c.numerics;
        const LocalId dense = tape.scratch("dense embedding gradient of the decoder",
                                           spec.vocab_size * spec.hidden_size, n.casts_weights ? n.compute : n.weight);
        tape.memory_op(OpKind::Embed, {kSlotDy}, {dense}, double(tape.at(dense).bytes().count)).is_weight_gradient =
            true;
      },
      {});
}

}  // namespace

LedgerContext make_context(const TrainedModel& model, const Recipe& recipe, const FrameworkConvention& framework,
                           const DtypePolicy& numerics) {
  const LayerKernels kernels =
      framework.has_fixed_kernels ? framework.kernels : recipe.kernels.value_or(framework.kernels);
  return {.model = model,
          .recipe = recipe,
          .framework = framework,
          .numerics = numerics,
          .is_fused = kernels == LayerKernels::Fused || recipe.torch_compile,
          .is_mlp_fused = (kernels == LayerKernels::Fused && framework.fuses_mlp) || recipe.torch_compile,
          .accumulates = recipe.grad_accum > 1};
}

void emit_layer(LayerGraph& graph, const LedgerContext& c) {
  Tape t(graph, c);
  if (c.layer().is_bridge)
    bridge(t);
  else if (c.model.spec.residual == ResidualKind::Sequential)
    sequential_layer(t);
  else
    parallel_layer(t);
  t.set_grad(kSlotY, kSlotDy);
  t.set_grad(kSlotMemory, kSlotDMemory);
  t.unwind();
}

}  // namespace gpuplan
