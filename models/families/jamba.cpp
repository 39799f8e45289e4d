// Jamba: layers of the first Mamba, one in `attn_layer_period` that attends instead, without positions; an MLP in each,
// in every second layer a mixture of such MLPs. Source of names and defaults: transformers JambaConfig,
// modeling_jamba.py @v4.57.6.
#include <fmt/format.h>

#include "models/families/experts.h"
#include "models/families/mixers.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

/// Layers i with i % period == offset, of which gpuplan's rule of experts has the last of each period alone.
void read_jamba_experts(Fields& config, ModelSpec& spec) {
  read_experts(config, spec, "num_experts", "intermediate_size",
               {.num_experts = 16, .experts_per_token = 2, .intermediate_size = 14336});
  const std::int64_t period = config.optional_integer("expert_layer_period", kLayerRange).value_or(2);
  const std::int64_t offset = config.optional_integer("expert_layer_offset", {0, kLayerRange.most}).value_or(1);
  spec.moe.layer_step = period;
  if (spec.moe.num_experts == 1) spec.moe = {};
  if (spec.moe.is_present() && offset != period - 1)
    config.report("expert_layer_offset", fmt::format("only {}, the last layer of {}, is modelled", period - 1, period));
}

void read_jamba(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 32,
                .num_key_value_heads = 8,
                .vocab_size = 65536,
                .intermediate_size = 14336,
                .max_position_embeddings = 262144});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.position = PositionKind::None;
  read_jamba_experts(config, spec);
  const std::int64_t period = config.optional_integer("attn_layer_period", kLayerRange).value_or(8);
  const std::int64_t offset = config.optional_integer("attn_layer_offset", {0, kLayerRange.most}).value_or(4);
  for (std::int64_t i = 0; i < spec.num_hidden_layers; ++i)
    spec.mixers.push_back(i % period == offset ? Mixer::Attention : Mixer::Mamba1);
  Mamba1Spec& m = spec.mamba1;
  m.has_norms = true;
  m.inner_width = read_expanded_width(config, spec);
  m.state_size = config.optional_integer("mamba_d_state", kStateRange).value_or(16);
  m.conv_kernel = config.optional_integer("mamba_d_conv", kConvRange).value_or(4);
  const nlohmann::json* rank = config.find("mamba_dt_rank");
  m.time_rank = rank && rank->is_number() ? config.integer("mamba_dt_rank", kWidthRange)  // or "auto"
                                          : (spec.hidden_size + 15) / 16;
  m.has_conv_bias = config.optional_flag("mamba_conv_bias").value_or(true);
  m.has_proj_bias = config.optional_flag("mamba_proj_bias").value_or(false);
}

Tensors jamba_layer(const ModelSpec& spec, Mixer mixer, bool is_moe) {
  Tensors layer;
  if (mixer == Mixer::Attention)
    add_attention(layer, spec);
  else
    add_mamba1(layer, spec, "mamba");
  if (is_moe) {
    add_linear(layer, LinearSlot::Router, "feed_forward.router", spec.hidden_size, spec.moe.num_experts);
    add_experts(layer, spec, "feed_forward.experts");
  } else {
    add_linear(layer, LinearSlot::Gate, "feed_forward.gate_proj", spec.hidden_size, spec.intermediate_size);
    add_linear(layer, LinearSlot::Up, "feed_forward.up_proj", spec.hidden_size, spec.intermediate_size);
    add_linear(layer, LinearSlot::Down, "feed_forward.down_proj", spec.intermediate_size, spec.hidden_size);
  }
  add_norm(layer, "input_layernorm", spec.hidden_size);
  add_norm(layer, "pre_ff_layernorm", spec.hidden_size);
  return layer;
}

ModelWeights list_jamba(const ModelSpec& spec) {
  ModelWeights weights;
  add_mixed_layers(weights, spec, "model.layers.{}.",
                   [&](Mixer mixer, bool is_moe) { return jamba_layer(spec, mixer, is_moe); });
  add_embedding(weights, spec, "model.embed_tokens");
  add_norm_of(weights.after, spec, "model.final_layernorm");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kJamba{
    .name = "jamba", .model_type = "jamba", .architecture = "JambaForCausalLM", .read = read_jamba, .list = list_jamba};

}  // namespace gpuplan
