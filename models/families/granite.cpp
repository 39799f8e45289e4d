// Granite's mixtures of experts (3.0, 3.1, PowerMoE), and Granite 4.0 with and without Mamba-2 layers.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "models/families/experts.h"
#include "models/families/mixers.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

// GraniteMoe: Granite's attention and its constant factors; experts of all layers, gate and up of all experts in one
// tensor [experts, out, in]. Source of names and defaults: transformers GraniteMoeConfig, modeling_granitemoe.py
// (GraniteMoeParallelExperts, GraniteMoeTopKGating).

void read_granite_moe(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .vocab_size = 32000});
  read_experts(config, spec, "num_local_experts", "intermediate_size",
               {.num_experts = 8, .experts_per_token = 2, .intermediate_size = {}});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.scales_embedding = true;  // by embedding_multiplier, whatever it is
}

/// Weight [experts, out, in] of GraniteMoeParallelExperts.
void add_parallel_experts(Tensors& tensors, const ModelSpec& spec, LinearSlot slot, const std::string& name,
                          std::int64_t in, std::int64_t out) {
  add_stacked_experts(tensors, slot, name, spec.moe.num_experts, in, out);
  std::swap(tensors.back().shape[1], tensors.back().shape[2]);
}

void add_granite_experts(Tensors& tensors, const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, width = spec.moe.intermediate_size;
  add_parallel_experts(tensors, spec, LinearSlot::ExpertGateUp, "block_sparse_moe.input_linear.weight", hidden,
                       2 * width);
  add_parallel_experts(tensors, spec, LinearSlot::ExpertDown, "block_sparse_moe.output_linear.weight", width, hidden);
  add_linear(tensors, LinearSlot::Router, "block_sparse_moe.router.layer", hidden, spec.moe.num_experts);
}

ModelWeights list_granite_moe(const ModelSpec& spec) {
  Tensors common, sparse;
  add_attention(common, spec);
  add_norm(common, "input_layernorm", spec.hidden_size);
  add_norm(common, "post_attention_layernorm", spec.hidden_size);
  add_granite_experts(sparse, spec);
  return moe_weights(spec, std::move(common), std::move(sparse));
}

// Granite 4.0: Granite's attention or Mamba-2 in each layer (micro, 1b and 350m without H have none), and one MLP whose
// gate and up are a single linear, beside experts in H-Tiny and H-Small. The H models have no positions but those of
// the recurrence. Source of names and defaults: transformers GraniteMoeHybridConfig, modeling_granitemoehybrid.py
// (GraniteMoeHybridMLP: input_linear to twice the width, chunked; GraniteMoeHybridMambaLayer).

constexpr std::array kGraniteMixers{MixerName{"attention", Mixer::Attention},
                                    MixerName{"full_attention", Mixer::Attention}, MixerName{"mamba", Mixer::Mamba2},
                                    MixerName{"linear_attention", Mixer::Mamba2}};

void read_granite4(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .vocab_size = 32000});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_fused_gate_up = true;
  spec.scales_embedding = true;  // by embedding_multiplier, whatever it is
  const bool has_positions = config.optional_text("position_embedding_type").value_or("nope") == "rope";
  spec.position = has_positions ? PositionKind::Rope : PositionKind::None;
  const std::int64_t shared = config.optional_integer("shared_intermediate_size", kFfnRange).value_or(1024);
  if (config.optional_integer("num_local_experts", kOptionalExpertRange).value_or(8) > 0) {
    read_experts(config, spec, "num_local_experts", "intermediate_size",
                 {.num_experts = 8, .experts_per_token = 2, .intermediate_size = {}});
    spec.moe.shared_intermediate_size = shared;
  } else {
    spec.intermediate_size = shared;
  }
  spec.mixers.assign(std::size_t(spec.num_hidden_layers), Mixer::Mamba2);  // what a config without a list has
  read_mixers(config, spec, "layer_types", kGraniteMixers);
  if (spec.is_hybrid()) read_mamba2(config, spec, read_expanded_width(config, spec));
}

Tensors granite4_layer(const ModelSpec& spec, Mixer mixer, bool is_moe) {
  const std::int64_t hidden = spec.hidden_size,
                     width = is_moe ? spec.moe.shared_intermediate_size : spec.intermediate_size;
  Tensors layer;
  if (mixer == Mixer::Attention)
    add_attention(layer, spec);
  else
    add_mamba2(layer, spec, "mamba");
  if (is_moe) add_granite_experts(layer, spec);
  add_linear(layer, is_moe ? LinearSlot::SharedGateUp : LinearSlot::GateUp, "shared_mlp.input_linear", hidden,
             2 * width);
  add_linear(layer, is_moe ? LinearSlot::SharedDown : LinearSlot::Down, "shared_mlp.output_linear", width, hidden);
  add_norm(layer, "input_layernorm", hidden);
  add_norm(layer, "post_attention_layernorm", hidden);
  return layer;
}

ModelWeights list_granite4(const ModelSpec& spec) {
  ModelWeights weights;
  add_mixed_layers(weights, spec, "model.layers.{}.",
                   [&](Mixer mixer, bool is_moe) { return granite4_layer(spec, mixer, is_moe); });
  add_embedding(weights, spec, "model.embed_tokens");
  add_norm_of(weights.after, spec, "model.norm");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kGraniteMoe{.name = "granitemoe",
                                   .model_type = "granitemoe",
                                   .architecture = "GraniteMoeForCausalLM",
                                   .read = read_granite_moe,
                                   .list = list_granite_moe};
constinit const Family kGranite4{.name = "granitemoehybrid",
                                 .model_type = "granitemoehybrid",
                                 .architecture = "GraniteMoeHybridForCausalLM",
                                 .read = read_granite4,
                                 .list = list_granite4};

}  // namespace gpuplan
