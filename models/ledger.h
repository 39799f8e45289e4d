// Emits the op graphs of a model's units under one recipe: the activation ledger (docs/memory_model.md).
// Facts and sources: docs/memory_model.md; the published closed forms are tests of what comes out, not the
// implementation.
#pragma once

#include "models/framework.h"
#include "models/layer_graph.h"
#include "models/numerics.h"
#include "models/recipe.h"
#include "models/trained_model.h"

namespace gpuplan {

/// Everything an emitter reads. Sizes are of one rank; a block rewrite (tp, cp) divides dims before emission.
struct LedgerContext {
  const TrainedModel& model;
  const Recipe& recipe;
  const FrameworkConvention& framework;
  DtypePolicy numerics;
  bool is_fused{};  // fused norm and RoPE kernels
  bool is_mlp_fused{};
  bool accumulates{};  // gradients of earlier micro-batches exist: a new gradient is a temporary, then added
  bool is_windowed{};  // this kind of layer attends to a sliding window only
  std::size_t kind{};  // of the layer that is emitted: index of model.weights.kinds

  std::int64_t tokens() const { return recipe.tokens(); }
  const LayerKind& layer() const { return model.weights.kinds[kind]; }
  const LinearRef& linear(LinearSlot slot) const { return model.linears[kind][slot]; }
};

/// Fills `is_fused` and `accumulates` from recipe and framework.
LedgerContext make_context(const TrainedModel& model, const Recipe& recipe, const FrameworkConvention& framework,
                           const DtypePolicy& numerics);

/// x -> y: one layer of context.kind, forward and backward. A bridge turns the encoder's last output into the memory
/// that the decoder attends to and starts the decoder's own stream.
void emit_layer(LayerGraph& graph, const LedgerContext& context);
/// token ids -> y: the embedding; backward consumes dy.
void emit_embedding(LayerGraph& graph, const LedgerContext& context);
/// x -> loss -> dx: final norm, head, loss and their backward in one list (graph.forward).
void emit_head(LayerGraph& graph, const LedgerContext& context);

/// The kernel that really runs: some modelling code has no flash path, and torch's sdpa cannot cap scores.
AttentionKernel attention_kernel_used(const ModelSpec& model, const Recipe& recipe,
                                      const FrameworkConvention& framework);

/// FLOPs of attention forward per layer, 2 s a (d_qk + d_v) per token; a kernel that skips masked blocks does half of
/// it for a causal layer, and no more than the window.
struct AttentionReach {
  bool is_causal = true, is_windowed = false, skips_masked = true;
};
double attention_flops(const ModelSpec& model, std::int64_t batch, std::int64_t seq_len, AttentionReach reach);

}  // namespace gpuplan
