// Qwen 3 MoE: Qwen 3's attention, many small experts, none shared.
// Source of names and defaults: transformers Qwen3MoeConfig, modeling_qwen3_moe.py. (The published configs state
// head_dim 128; the class derives it from the width.)
#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_attention_heads = 32, .num_key_value_heads = 4, .vocab_size = 151936, .max_position_embeddings = 32768});
  read_experts(config, spec, "num_experts", "moe_intermediate_size",
               {.num_experts = 128, .experts_per_token = 8, .intermediate_size = 768});
  read_moe_layers(config, spec, "decoder_sparse_step");
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.qk_norm = QkNorm::PerHead;
  read_optional_window(config, spec, 0);  // where it is used, in every layer
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  write_experts(spec, config, "num_experts", "moe_intermediate_size");
  write_moe_layers(spec, config, "decoder_sparse_step");
  write_optional_window(spec, config);
  config["hidden_act"] = hf_activation(spec.activation);
  config["attention_bias"] = spec.has_qkv_bias;
}

ModelWeights list(const ModelSpec& spec) {
  Tensors common, sparse;
  add_attention(common, spec);
  add_norm(common, "input_layernorm", spec.hidden_size);
  add_norm(common, "post_attention_layernorm", spec.hidden_size);
  add_linear(sparse, LinearSlot::Router, "mlp.gate", spec.hidden_size, spec.moe.num_experts);
  add_experts(sparse, spec, "mlp.experts");
  return moe_weights(spec, std::move(common), std::move(sparse));
}

}  // namespace

constinit const Family kQwen3Moe{.name = "qwen3_moe",
                                 .model_type = "qwen3_moe",
                                 .architecture = "Qwen3MoeForCausalLM",
                                 .read = read,
                                 .write = write,
                                 .list = list};

}  // namespace gpuplan
