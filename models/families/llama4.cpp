// Llama 4, text part: stacked experts that all run on every token in the library's code, a shared expert beside them; q
// and k are scaled to unit length without weights in the layers that rotate. Scout has experts in every layer, Maverick
// in every second one. Chunked attention is planned as full attention: it changes neither tensors nor, below 8192
// tokens, work. Source of names and defaults: transformers Llama4TextConfig, modeling_llama4.py.
#include <fmt/format.h>

#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

/// `moe_layers` overrides the step; lists that follow no step are refused.
void read_list(Fields& config, ModelSpec& spec) {
  const nlohmann::json* list = config.find("moe_layers");
  if (!list || !list->is_array() || spec.num_hidden_layers == 0) return;
  nlohmann::json by_rule = nlohmann::json::array();
  for (std::int64_t i = 0; i < spec.num_hidden_layers; ++i)
    if (spec.moe.is_moe_layer(i)) by_rule.push_back(i);
  if (*list != by_rule)
    config.report("moe_layers",
                  fmt::format("must be every layer of step {}: other patterns are not modelled", spec.moe.layer_step));
}

void read_llama4(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 40,
                .num_key_value_heads = 8,
                .head_dim = 128,
                .vocab_size = 202048,
                .max_position_embeddings = 4096 * 32});
  read_experts(config, spec, "num_local_experts", "intermediate_size",
               {.num_experts = 16, .experts_per_token = 1, .intermediate_size = {}});
  spec.intermediate_size = config.optional_integer("intermediate_size_mlp", kFfnRange).value_or(16384);
  spec.moe.shared_intermediate_size = spec.moe.intermediate_size;
  spec.moe.layer_step = config.optional_integer("interleave_moe_layer_step", kLayerRange).value_or(1);
  spec.moe.computes_all = true;
  read_list(config, spec);
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.qk_norm = config.optional_flag("use_qk_norm").value_or(true) ? QkNorm::Unweighted : QkNorm::None;
}

ModelWeights list_llama4(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, experts = spec.moe.num_experts, width = spec.moe.intermediate_size;
  Tensors common;
  add_attention(common, spec);
  add_norm(common, "input_layernorm", hidden);
  add_norm(common, "post_attention_layernorm", hidden);
  Tensors dense = common, sparse = std::move(common);
  add_linear(dense, LinearSlot::Gate, "feed_forward.gate_proj", hidden, spec.intermediate_size);
  add_linear(dense, LinearSlot::Up, "feed_forward.up_proj", hidden, spec.intermediate_size);
  add_linear(dense, LinearSlot::Down, "feed_forward.down_proj", spec.intermediate_size, hidden);
  add_linear(sparse, LinearSlot::Router, "feed_forward.router", hidden, experts);
  add_stacked_experts(sparse, LinearSlot::ExpertGateUp, "feed_forward.experts.gate_up_proj", experts, hidden,
                      2 * width);
  add_stacked_experts(sparse, LinearSlot::ExpertDown, "feed_forward.experts.down_proj", experts, width, hidden);
  add_shared_expert(sparse, spec, "feed_forward.shared_expert");
  ModelWeights weights;
  add_moe_layers(weights, spec, "model.layers.{}.", std::move(dense), std::move(sparse));
  add_embedding(weights, spec, "model.embed_tokens");
  add_norm(weights.after, "model.norm", hidden);
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kLlama4{.name = "llama4",
                               .model_type = "llama4_text",
                               .architecture = "Llama4ForCausalLM",
                               .wrapper_type = "llama4",
                               .wrapper_architecture = "Llama4ForConditionalGeneration",
                               .read = read_llama4,
                               .list = list_llama4};

}  // namespace gpuplan
