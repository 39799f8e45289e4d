// ERNIE 4.5: Llama's layer with a tied head; with experts, dense layers first, DeepSeek's shared experts, and a
// correction of the router's scores. Source of names and defaults: transformers Ernie4_5Config, Ernie4_5_MoeConfig and
// their models.
#include <fmt/format.h>

#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr IntRange kSharedErnieRange{0, 64};

void read_ernie(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 16,
                .num_key_value_heads = 2,
                .head_dim = 128,
                .vocab_size = 103424,
                .max_position_embeddings = 131072,
                .tie_word_embeddings = true});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = config.optional_flag("use_bias").value_or(false);
}

/// Experts stand in every layer from moe_layer_start_index to the end.
void read_ernie_layers(Fields& config, ModelSpec& spec) {
  spec.moe.num_dense_layers = config.optional_integer("moe_layer_start_index", {0, kLayerRange.most}).value_or(1);
  if (config.optional_integer("moe_layer_interval", kLayerRange).value_or(1) != 1)
    config.report("moe_layer_interval", "only 1, experts in every layer after the dense ones, is modelled");
  const std::int64_t last = config.optional_integer("moe_layer_end_index", {-1, kLayerRange.most}).value_or(-1);
  if (last != -1 && last < spec.num_hidden_layers - 1)
    config.report("moe_layer_end_index",
                  fmt::format("{}: dense layers after those with experts are not modelled", last));
}

void read_ernie_moe(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 20,
                .num_key_value_heads = 4,
                .vocab_size = 103424,
                .max_position_embeddings = 131072,
                .tie_word_embeddings = true});
  spec.activation = read_activation(config, "hidden_act", "silu");
  if (config.optional_flag("use_bias").value_or(false)) config.report("use_bias", "biases are not modelled here");
  read_experts(config, spec, "moe_num_experts", "moe_intermediate_size",
               {.num_experts = 64, .experts_per_token = 6, .intermediate_size = 1536}, "moe_k");
  spec.moe.shared_intermediate_size =
      config.optional_integer("moe_num_shared_experts", kSharedErnieRange).value_or(2) * spec.moe.intermediate_size;
  spec.moe.has_router_correction = true;
  read_ernie_layers(config, spec);
}

ModelWeights list_ernie_moe(const ModelSpec& spec) {
  Tensors common, sparse;
  add_attention(common, spec);
  add_norm(common, "input_layernorm", spec.hidden_size);
  add_norm(common, "post_attention_layernorm", spec.hidden_size);
  add_linear(sparse, LinearSlot::Router, "mlp.gate", spec.hidden_size, spec.moe.num_experts);
  sparse.push_back({.name = "mlp.moe_statics.e_score_correction_bias",
                    .shape = {1, spec.moe.num_experts},
                    .role = WeightRole::Bias});
  add_experts(sparse, spec, "mlp.experts");
  add_shared_expert(sparse, spec, "mlp.shared_experts");
  return moe_weights(spec, std::move(common), std::move(sparse));
}

}  // namespace

constinit const Family kErnie{.name = "ernie4_5",
                              .model_type = "ernie4_5",
                              .architecture = "Ernie4_5ForCausalLM",
                              .read = read_ernie,
                              .list = pre_norm_weights};
constinit const Family kErnieMoe{.name = "ernie4_5_moe",
                                 .model_type = "ernie4_5_moe",
                                 .architecture = "Ernie4_5_MoeForCausalLM",
                                 .read = read_ernie_moe,
                                 .list = list_ernie_moe};

}  // namespace gpuplan
