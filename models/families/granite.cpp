// Granite's mixtures of experts (3.0, 3.1, PowerMoE), and Granite 4.0 without Mamba layers.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "models/families/experts.h"
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
  spec.moe.is_stacked = true;
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.scales_embedding = true;  // by embedding_multiplier, whatever it is
}

void write_granite_moe(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  write_experts(spec, config, "num_local_experts", "intermediate_size");
  config["hidden_act"] = hf_activation(spec.activation);
  config["attention_bias"] = spec.has_qkv_bias;
}

/// Weight [experts, out, in] of GraniteMoeParallelExperts.
void add_parallel_experts(Tensors& tensors, const ModelSpec& spec, LinearSlot slot, const std::string& name,
                          std::int64_t in, std::int64_t out) {
  add_stacked_experts(tensors, slot, name, spec.moe.num_experts, in, out);
  std::swap(tensors.back().shape[1], tensors.back().shape[2]);
}

ModelWeights list_granite_moe(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, width = spec.moe.intermediate_size;
  Tensors common, sparse;
  add_attention(common, spec);
  add_norm(common, "input_layernorm", hidden);
  add_norm(common, "post_attention_layernorm", hidden);
  add_parallel_experts(sparse, spec, LinearSlot::ExpertGateUp, "block_sparse_moe.input_linear.weight", hidden,
                       2 * width);
  add_parallel_experts(sparse, spec, LinearSlot::ExpertDown, "block_sparse_moe.output_linear.weight", width, hidden);
  add_linear(sparse, LinearSlot::Router, "block_sparse_moe.router.layer", hidden, spec.moe.num_experts);
  return moe_weights(spec, std::move(common), std::move(sparse));
}

// Granite 4.0 without Mamba layers (micro, 1b, 350m): Granite's attention, and one MLP whose gate and up are a single
// linear, which the model class shares with its mixtures of experts. Granite 4.0 H, with Mamba-2 layers, is refused.
// Source of names and defaults: transformers GraniteMoeHybridConfig, modeling_granitemoehybrid.py
// (GraniteMoeHybridMLP: input_linear to twice the width, chunked).

constexpr IntRange kOptionalExpertRange{0, 1 << 13};

/// What the class has and these models do not use.
void refuse_other_layers(Fields& config, const ModelSpec& spec) {
  const nlohmann::json* types = config.find("layer_types");
  const auto is_attention = [](const nlohmann::json& type) { return type == "attention" || type == "full_attention"; };
  if (!types)
    config.report("layer_types", "is missing, so every layer is a Mamba layer, which is not modelled");
  else if (!types->is_array() || !std::all_of(types->begin(), types->end(), is_attention))
    config.report("layer_types", "only 'attention' is modelled: Mamba (state-space) layers are not");
  else if (spec.num_hidden_layers > 0 && std::ssize(*types) != spec.num_hidden_layers)
    config.report("layer_types", fmt::format("must name each of the {} layers", spec.num_hidden_layers));
  if (config.optional_integer("num_local_experts", kOptionalExpertRange).value_or(8) > 0)
    config.report("num_local_experts", "only 0 is modelled: Granite 4.0 with experts has Mamba layers");
  if (config.optional_text("position_embedding_type").value_or("none") != "rope")
    config.report("position_embedding_type", "only 'rope' is modelled");
}

void read_granite4(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .vocab_size = 32000});
  spec.intermediate_size = config.optional_integer("shared_intermediate_size", kFfnRange).value_or(1024);
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_fused_gate_up = true;
  spec.scales_embedding = true;  // by embedding_multiplier, whatever it is
  refuse_other_layers(config, spec);
}

void write_granite4(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  config["shared_intermediate_size"] = spec.intermediate_size;
  config["hidden_act"] = hf_activation(spec.activation);
  config["attention_bias"] = spec.has_qkv_bias;
  config["layer_types"] = nlohmann::json(std::size_t(spec.num_hidden_layers), "attention");
  config["num_local_experts"] = 0;
  config["position_embedding_type"] = "rope";
}

ModelWeights list_granite4(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_linear(layer, LinearSlot::GateUp, "shared_mlp.input_linear", spec.hidden_size, 2 * spec.intermediate_size);
  add_linear(layer, LinearSlot::Down, "shared_mlp.output_linear", spec.intermediate_size, spec.hidden_size);
  add_norm(layer, "input_layernorm", spec.hidden_size);
  add_norm(layer, "post_attention_layernorm", spec.hidden_size);
  return decoder_weights(spec, std::move(layer));
}

}  // namespace

constinit const Family kGraniteMoe{.name = "granitemoe",
                                   .model_type = "granitemoe",
                                   .architecture = "GraniteMoeForCausalLM",
                                   .read = read_granite_moe,
                                   .write = write_granite_moe,
                                   .list = list_granite_moe};
constinit const Family kGranite4{.name = "granitemoehybrid",
                                 .model_type = "granitemoehybrid",
                                 .architecture = "GraniteMoeHybridForCausalLM",
                                 .read = read_granite4,
                                 .write = write_granite4,
                                 .list = list_granite4};

}  // namespace gpuplan
