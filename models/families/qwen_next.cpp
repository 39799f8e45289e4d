// Qwen3-Next, Qwen3.5 and 3.6: three of four layers mix their tokens by a gated delta net, every fourth attends, with a
// gate on attention's output, norms on queries and keys that multiply by one plus their weight, and a quarter of each
// head rotated. Dense, or many small experts and a shared one behind a switch. The layers that predict further tokens
// (mtp.*) are not loaded by transformers. Source of names and defaults: transformers configuration_*.py and
// modeling_*.py of qwen3_next, qwen3_5 and qwen3_5_moe.
#include <array>

#include "models/families/experts.h"
#include "models/families/mixers.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::array kNextMixers{MixerName{"linear_attention", Mixer::DeltaNet},
                                 MixerName{"full_attention", Mixer::Attention}};

void read_delta_net(Fields& config, DeltaNetSpec& d) {
  d.num_key_heads = config.optional_integer("linear_num_key_heads", kHeadRange).value_or(16);
  d.num_value_heads = config.optional_integer("linear_num_value_heads", kHeadRange).value_or(32);
  d.key_dim = config.optional_integer("linear_key_head_dim", kHeadRange).value_or(128);
  d.value_dim = config.optional_integer("linear_value_head_dim", kHeadRange).value_or(128);
  d.conv_kernel = config.optional_integer("linear_conv_kernel_dim", kConvRange).value_or(4);
  if (config.has_problems()) return;
  if (d.num_value_heads % d.num_key_heads != 0)
    config.report("linear_num_value_heads", "must be a multiple of linear_num_key_heads");
  if (d.key_width() > kWidthRange.most || d.value_width() > kWidthRange.most)
    config.report("linear_num_value_heads", "the heads are wider than can be counted");
}

/// layer_types, or attention in every full_attention_interval-th layer.
void read_layer_kinds(Fields& config, ModelSpec& spec) {
  const std::int64_t interval = config.optional_integer("full_attention_interval", kLayerRange).value_or(4);
  for (std::int64_t i = 0; i < spec.num_hidden_layers; ++i)
    spec.mixers.push_back((i + 1) % std::max<std::int64_t>(1, interval) == 0 ? Mixer::Attention : Mixer::DeltaNet);
  read_mixers(config, spec, "layer_types", kNextMixers);
  if (spec.is_hybrid()) read_delta_net(config, spec.delta_net);
}

void read_next(Fields& config, ModelSpec& spec, const DecoderDefaults& defaults) {
  read_decoder(config, spec, defaults);
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_attention_gate = config.optional_flag("attn_output_gate").value_or(true);
  spec.qk_norm = QkNorm::PerHead;
  spec.norm = NormKind::GemmaRmsNorm;
  spec.rotary_fraction = read_rotary_fraction(config, "partial_rotary_factor", 0.25);
  read_layer_kinds(config, spec);
}

void read_next_experts(Fields& config, ModelSpec& spec, const ExpertDefaults& defaults) {
  if (config.optional_integer("num_experts", kOptionalExpertRange) == 0) return;
  read_experts(config, spec, "num_experts", "moe_intermediate_size", defaults);
  read_moe_layers(config, spec, "decoder_sparse_step");
  spec.moe.shared_intermediate_size =
      config.optional_integer("shared_expert_intermediate_size", kFfnRange).value_or(512);
  spec.moe.has_shared_gate = true;
}

// Qwen3-Next: one linear for queries, keys, values and z of a delta net, another for beta and decay.

void read_qwen3_next(Fields& config, ModelSpec& spec) {
  read_next(config, spec,
            {.num_attention_heads = 16,
             .num_key_value_heads = 2,
             .head_dim = 256,
             .vocab_size = 151936,
             .intermediate_size = 5632,
             .max_position_embeddings = 32768});
  spec.delta_net.has_fused_projections = spec.is_hybrid();
  read_next_experts(config, spec, {.num_experts = 512, .experts_per_token = 10, .intermediate_size = 512});
}

// Qwen3.5 and 3.6, the language model: a linear each for queries, keys and values together, z, beta and decay. Experts
// are stacked in the checkpoint.

void read_qwen35(Fields& config, ModelSpec& spec) {
  read_next(config, spec,
            {.num_attention_heads = 16,
             .num_key_value_heads = 4,
             .head_dim = 256,
             .vocab_size = 248320,
             .max_position_embeddings = 32768});
}

void read_qwen35_moe(Fields& config, ModelSpec& spec) {
  read_next(config, spec,
            {.num_attention_heads = 16,
             .num_key_value_heads = 2,
             .head_dim = 256,
             .vocab_size = 248320,
             .intermediate_size = 512,  // the class has none: every layer has experts
             .max_position_embeddings = 32768});
  read_next_experts(config, spec, {.num_experts = 256, .experts_per_token = 8, .intermediate_size = 512});
  spec.moe.is_stacked = true;
}

/// Weights [experts, out, in] of all experts together.
void add_stacked_mlp(Tensors& tensors, const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, width = spec.moe.intermediate_size, experts = spec.moe.num_experts;
  add_linear(tensors, LinearSlot::Router, "mlp.gate", hidden, experts);
  add_stacked_experts(tensors, LinearSlot::ExpertGateUp, "mlp.experts.gate_up_proj", experts, hidden, 2 * width);
  std::swap(tensors.back().shape[1], tensors.back().shape[2]);
  add_stacked_experts(tensors, LinearSlot::ExpertDown, "mlp.experts.down_proj", experts, width, hidden);
  std::swap(tensors.back().shape[1], tensors.back().shape[2]);
  add_shared_expert(tensors, spec, "mlp.shared_expert");
  add_linear(tensors, LinearSlot::SharedSwitch, "mlp.shared_expert_gate", hidden, 1);
}

Tensors next_layer(const ModelSpec& spec, Mixer mixer, bool is_moe) {
  Tensors layer;
  if (mixer == Mixer::Attention)
    add_attention(layer, spec);
  else
    add_delta_net(layer, spec, "linear_attn");
  if (!is_moe)
    add_gated_mlp(layer, spec);
  else if (spec.moe.is_stacked)
    add_stacked_mlp(layer, spec);
  else
    add_sparse_mlp(layer, spec, "mlp");
  add_norm(layer, "input_layernorm", spec.hidden_size);
  add_norm(layer, "post_attention_layernorm", spec.hidden_size);
  return layer;
}

ModelWeights list_next(const ModelSpec& spec) {
  ModelWeights weights;
  add_mixed_layers(weights, spec, "model.layers.{}.",
                   [&](Mixer mixer, bool is_moe) { return next_layer(spec, mixer, is_moe); });
  add_embedding(weights, spec, "model.embed_tokens");
  add_norm_of(weights.after, spec, "model.norm");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kQwen3Next{.name = "qwen3_next",
                                  .model_type = "qwen3_next",
                                  .architecture = "Qwen3NextForCausalLM",
                                  .read = read_qwen3_next,
                                  .list = list_next};
constinit const Family kQwen35Text{.name = "qwen3_5_text",
                                   .model_type = "qwen3_5_text",
                                   .architecture = "Qwen3_5ForCausalLM",
                                   .read = read_qwen35,
                                   .list = list_next};
constinit const Family kQwen35MoeText{.name = "qwen3_5_moe_text",
                                      .model_type = "qwen3_5_moe_text",
                                      .architecture = "Qwen3_5MoeForCausalLM",
                                      .read = read_qwen35_moe,
                                      .list = list_next};

}  // namespace gpuplan
