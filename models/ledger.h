// Emits the op graphs of a model's units under one recipe: the activation ledger (docs/memory_model.md).
// Facts and sources: docs/memory_model.md; the published closed forms are tests of what comes out, not the
// implementation.
#pragma once

#include <algorithm>

#include "models/framework.h"
#include "models/layer_graph.h"
#include "models/numerics.h"
#include "models/recipe.h"
#include "models/trained_model.h"

namespace gpuplan {

/// Everything an emitter reads. Sizes are of one rank (models/rank_model.h).
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
  bool is_head{};      // the end behind the last layer is emitted

  const LayerKind& layer() const { return model.weights.kinds[kind]; }
  bool is_language() const { return layer().part == ModelPart::Language; }
  /// The stack of the layer that is emitted: the language model, or the tower in front of it.
  const ModelSpec& spec() const { return !is_language() ? model.tower : layer().is_global ? model.global : model.spec; }
  /// The rows of that stack: tokens, or positions of the images' patches.
  std::int64_t tokens() const {
    return is_language() ? model.own_tokens(recipe) : recipe.rows() * model.positions_per_row(recipe);
  }
  /// Those of them that a rank has between the products of a layer.
  std::int64_t stream_tokens() const { return is_language() ? model.stream_tokens(recipe) : tokens(); }
  std::int64_t image_tokens() const { return recipe.rows() * model.image_tokens_per_row(recipe); }
  std::int64_t image_features() const { return recipe.rows() * model.features_per_row(recipe); }
  /// Queries that see the same keys, and how many such stretches there are: a sequence or a rank's part of it, a tile
  /// of an image, or a window of it.
  std::int64_t attention_length() const {
    if (is_language()) return model.own_length(recipe);
    const std::int64_t tile = model.image.positions_per_tile, window = model.spec.vision.window;
    return layer().is_windowed ? std::min(window, tile) : tile;
  }
  std::int64_t attention_batch() const {
    return is_language() ? recipe.rows() : std::max<std::int64_t>(1, tokens() / attention_length());
  }
  /// Gives what a query may see.
  std::int64_t attention_keys() const {
    if (attends_to_images(layer().mixer)) return model.features_per_row(recipe);
    return is_language() ? recipe.seq_len : attention_length();
  }
  /// Features of images that wait for layers of the language model.
  std::int64_t memory_elements() const { return recipe.rows() * model.memory_elements_per_row(recipe); }
  bool trains_norms() const { return is_head ? model.trains_norms : model.linears[kind].trains_norms; }
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
/// x -> loss -> dx: final norm, head, loss and their backward in one list (graph.forward). Of a method that compares
/// answers the backward stands by itself (graph.backward), as passes of other models come before it.
void emit_head(LayerGraph& graph, const LedgerContext& context);

/// The kernel that really runs: some modelling code has no flash path, and torch's sdpa cannot cap scores.
AttentionKernel attention_kernel_used(const ModelSpec& model, const Recipe& recipe,
                                      const FrameworkConvention& framework);

/// FLOPs of attention forward per layer, 2 s a (d_qk + d_v) per token; a kernel that skips masked blocks does half of
/// it for a causal layer, and no more than the window.
struct AttentionReach {
  bool is_causal = true, is_windowed = false, skips_masked = true;
  std::int64_t keys = 0;  // of another sequence; 0: of this one
};
double attention_flops(const ModelSpec& model, std::int64_t batch, std::int64_t seq_len, AttentionReach reach);

/// FLOPs of a recurrent mixer's scan forward per layer, beside its projections: products within a chunk and with the
/// states between chunks, so linear in the length. 0 where the mixer has no recurrence.
double recurrence_flops(const ModelSpec& model, Mixer mixer, std::int64_t batch, std::int64_t seq_len);

}  // namespace gpuplan
