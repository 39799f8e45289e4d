// Kimi Linear (48B-A3B): Kimi Delta Attention in three of four layers, a delta net whose decay is per channel of the
// keys and made, as is the gate on its output, by two linears through a narrow width; latent attention without
// positions in the others; DeepSeek-V3's experts under other names. Source of names and defaults: configuration_kimi.py
// and modeling_kimi.py of moonshotai/Kimi-Linear-48B-A3B-Instruct at 6e163f3, as axolotl @067b021c carries them.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/families/deepseek.h"
#include "models/families/experts.h"
#include "models/families/mixers.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// `kda_layers` counts from one; the layers that it leaves out attend.
void read_kda_layers(Fields& linear, ModelSpec& spec) {
  spec.mixers.assign(std::size_t(spec.num_hidden_layers), Mixer::Attention);
  const json* layers = linear.find("kda_layers");
  if (!layers || !layers->is_array()) return linear.report("kda_layers", "must list the layers of delta attention");
  for (const json& layer : *layers) {
    if (!layer.is_number_integer() || layer < 1 || layer > spec.num_hidden_layers)
      return linear.report("kda_layers", fmt::format("{} is no layer", layer.dump()));
    spec.mixers[layer.get<std::size_t>() - 1] = Mixer::DeltaNet;
  }
}

void read_kda(Fields& config, ModelSpec& spec) {
  Fields linear = config.fields("linear_attn_config");
  DeltaNetSpec& d = spec.delta_net;
  d.num_key_heads = d.num_value_heads = linear.integer("num_heads", kHeadRange);
  d.key_dim = d.value_dim = d.gate_rank = linear.integer("head_dim", kHeadRange);
  d.conv_kernel = linear.optional_integer("short_conv_kernel_size", kConvRange).value_or(4);
  if (d.value_width() > kWidthRange.most) linear.report("num_heads", "the heads are wider than can be counted");
  if (linear.optional_flag("use_full_rank_gate").value_or(false))
    linear.report("use_full_rank_gate", "a gate of full rank (Kimi K3) is not modelled");
  read_kda_layers(linear, spec);
}

void read_kimi_linear(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 32,
                .vocab_size = 163840,
                .intermediate_size = 11008,
                .max_position_embeddings = 1 << 20});
  read_experts(config, spec, "num_experts", "moe_intermediate_size", {}, "num_experts_per_token");
  spec.moe.shared_intermediate_size =
      config.optional_integer("num_shared_experts", {0, 64}).value_or(0) * spec.moe.intermediate_size;
  spec.moe.num_dense_layers = config.optional_integer("first_k_dense_replace", {0, kLayerRange.most}).value_or(0);
  if (config.optional_integer("moe_layer_freq", kLayerRange).value_or(1) != 1)
    config.report("moe_layer_freq", "only 1, experts in every layer after the dense ones, is modelled");
  spec.moe.has_router_correction = true;
  spec.activation = read_activation(config, "hidden_act", "silu");
  if (config.has("q_lora_rank") && config.optional_integer("q_lora_rank", kWidthRange))
    config.report("q_lora_rank", "queries through a low rank are not modelled here");
  read_latent(config, spec);
  spec.latent.q_rank = 0;
  spec.position = PositionKind::None;
  read_kda(config, spec);
}

void add_kda(Tensors& tensors, const ModelSpec& spec, const std::string& module) {
  const DeltaNetSpec& d = spec.delta_net;
  const std::int64_t hidden = spec.hidden_size, keys = d.key_width(), values = d.value_width();
  const auto vector = [&](const char* name, std::vector<std::int64_t> shape) {
    tensors.push_back({.name = module + name, .shape = std::move(shape), .role = WeightRole::Recurrence});
  };
  add_linear(tensors, LinearSlot::Q, module + ".q_proj", hidden, keys);
  add_linear(tensors, LinearSlot::K, module + ".k_proj", hidden, keys);
  add_linear(tensors, LinearSlot::V, module + ".v_proj", hidden, values);
  vector(".q_conv1d.weight", {keys, 1, d.conv_kernel});
  vector(".k_conv1d.weight", {keys, 1, d.conv_kernel});
  vector(".v_conv1d.weight", {values, 1, d.conv_kernel});
  vector(".A_log", {1, 1, d.num_value_heads, 1});
  add_linear(tensors, LinearSlot::MixDecayDown, module + ".f_a_proj", hidden, d.gate_rank);
  add_linear(tensors, LinearSlot::MixDecay, module + ".f_b_proj", d.gate_rank, keys);
  vector(".dt_bias", {keys});
  add_linear(tensors, LinearSlot::MixBeta, module + ".b_proj", hidden, d.num_value_heads);
  add_linear(tensors, LinearSlot::MixGateDown, module + ".g_a_proj", hidden, d.gate_rank);
  add_linear(tensors, LinearSlot::MixGate, module + ".g_b_proj", d.gate_rank, values);
  add_norm(tensors, module + ".o_norm", d.value_dim);
  add_linear(tensors, LinearSlot::O, module + ".o_proj", values, hidden);
}

Tensors kimi_layer(const ModelSpec& spec, Mixer mixer, bool is_moe) {
  Tensors layer;
  if (mixer == Mixer::DeltaNet)
    add_kda(layer, spec, "self_attn");
  else
    add_latent_attention(layer, spec);
  if (is_moe) {
    add_bare_router(layer, spec, "block_sparse_moe.gate");
    add_experts(layer, spec, "block_sparse_moe.experts", {.gate = "w1", .up = "w3", .down = "w2"});
    add_shared_expert(layer, spec, "block_sparse_moe.shared_experts");
  } else {
    add_gated_mlp(layer, spec);
  }
  add_norm(layer, "input_layernorm", spec.hidden_size);
  add_norm(layer, "post_attention_layernorm", spec.hidden_size);
  return layer;
}

ModelWeights list_kimi_linear(const ModelSpec& spec) {
  ModelWeights weights;
  add_mixed_layers(weights, spec, "model.layers.{}.",
                   [&](Mixer mixer, bool is_moe) { return kimi_layer(spec, mixer, is_moe); });
  add_embedding(weights, spec, "model.embed_tokens");
  add_norm_of(weights.after, spec, "model.norm");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kKimiLinear{.name = "kimi_linear",
                                   .model_type = "kimi_linear",
                                   .architecture = "KimiLinearForCausalLM",
                                   .read = read_kimi_linear,
                                   .list = list_kimi_linear};

}  // namespace gpuplan
