// Qwen 1.5 and 2 MoE: Qwen 2's attention with its biases; many small experts and a shared one behind a sigmoid switch.
// Source of names and defaults: transformers Qwen2MoeConfig, modeling_qwen2_moe.py.
#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kDefaultFullLayers = 28;  // max_window_layers

void read(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_attention_heads = 16, .num_key_value_heads = 16, .vocab_size = 151936, .max_position_embeddings = 32768});
  read_experts(config, spec, "num_experts", "moe_intermediate_size",
               {.num_experts = 60, .experts_per_token = 4, .intermediate_size = 1408});
  read_moe_layers(config, spec, "decoder_sparse_step");
  spec.moe.shared_intermediate_size =
      config.optional_integer("shared_expert_intermediate_size", kFfnRange).value_or(5632);
  spec.moe.has_shared_gate = true;
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = config.optional_flag("qkv_bias").value_or(true);
  read_optional_window(config, spec, kDefaultFullLayers);
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  write_experts(spec, config, "num_experts", "moe_intermediate_size");
  write_moe_layers(spec, config, "decoder_sparse_step");
  write_optional_window(spec, config);
  config["shared_expert_intermediate_size"] = spec.moe.shared_intermediate_size;
  config["hidden_act"] = hf_activation(spec.activation);
  config["qkv_bias"] = spec.has_qkv_bias;
}

ModelWeights list(const ModelSpec& spec) {
  Tensors common, sparse;
  add_attention(common, spec);
  add_norm(common, "input_layernorm", spec.hidden_size);
  add_norm(common, "post_attention_layernorm", spec.hidden_size);
  add_linear(sparse, LinearSlot::Router, "mlp.gate", spec.hidden_size, spec.moe.num_experts);
  add_experts(sparse, spec, "mlp.experts");
  add_shared_expert(sparse, spec, "mlp.shared_expert");
  add_linear(sparse, LinearSlot::SharedSwitch, "mlp.shared_expert_gate", spec.hidden_size, 1);
  return moe_weights(spec, std::move(common), std::move(sparse));
}

}  // namespace

constinit const Family kQwen2Moe{.name = "qwen2_moe",
                                 .model_type = "qwen2_moe",
                                 .architecture = "Qwen2MoeForCausalLM",
                                 .read = read,
                                 .write = write,
                                 .list = list};

}  // namespace gpuplan
