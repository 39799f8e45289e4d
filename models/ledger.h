// Emits the op graphs of a model's units under one recipe: the activation ledger (docs/memory_model.md).
// Facts: formulas.md 4-6; the published closed forms are tests of what comes out, not the implementation.
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
  Numerics numerics;
  bool is_fused{};     // fused norm and MLP kernels
  bool accumulates{};  // gradients of earlier micro-batches exist: a new gradient is a temporary, then added
  bool is_windowed{};  // this kind of layer attends to a sliding window only

  std::int64_t tokens() const { return recipe.tokens(); }
};

/// Fills `is_fused` and `accumulates` from recipe and framework.
LedgerContext make_context(const TrainedModel& model, const Recipe& recipe, const FrameworkConvention& framework,
                           const Numerics& numerics);

/// x -> y: one decoder layer, forward and backward.
void emit_layer(LayerGraph& graph, const LedgerContext& context);
/// token ids -> y: the embedding; backward consumes dy.
void emit_embedding(LayerGraph& graph, const LedgerContext& context);
/// x -> loss -> dx: final norm, head, loss and their backward in one list (graph.forward).
void emit_head(LayerGraph& graph, const LedgerContext& context);

/// FLOPs of causal attention forward per layer: 4 s a d per token, halved by the mask, cut by the window.
double attention_flops(const ModelSpec& model, std::int64_t batch, std::int64_t seq_len, bool is_windowed,
                       bool skips_masked);

}  // namespace gpuplan
