// Hunyuan with experts (A13B): attention as in the dense model, and in every layer a shared MLP beside the experts, as
// wide as one of them. Source of names and defaults: transformers HunYuanMoEV1Config, modeling_hunyuan_v1_moe.py; its
// config.json gives some numbers as a list with one entry for each layer.

#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_hunyuan_moe(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .vocab_size = 290943, .intermediate_size = 11008});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.qk_norm = QkNorm::PerHead;
  read_experts(config, spec, "num_experts", "intermediate_size", {.intermediate_size = 11008}, "moe_topk");
  spec.moe.shared_intermediate_size = spec.intermediate_size;
}

ModelWeights list_hunyuan_moe(const ModelSpec& spec) {
  Tensors common, sparse;
  add_attention(common, spec);
  for (WeightTensor& tensor : common) {
    if (tensor.name == "self_attn.q_norm.weight") tensor.name = "self_attn.query_layernorm.weight";
    if (tensor.name == "self_attn.k_norm.weight") tensor.name = "self_attn.key_layernorm.weight";
  }
  add_norm(common, "input_layernorm", spec.hidden_size);
  add_norm(common, "post_attention_layernorm", spec.hidden_size);
  add_linear(sparse, LinearSlot::Router, "mlp.gate.wg", spec.hidden_size, spec.moe.num_experts);
  add_experts(sparse, spec, "mlp.experts");
  add_shared_expert(sparse, spec, "mlp.shared_mlp");
  return moe_weights(spec, std::move(common), std::move(sparse));
}

}  // namespace

constinit const Family kHunyuanMoe{.name = "hunyuan_v1_moe",
                                   .model_type = "hunyuan_v1_moe",
                                   .architecture = "HunYuanMoEV1ForCausalLM",
                                   .read = read_hunyuan_moe,
                                   .list = list_hunyuan_moe};

}  // namespace gpuplan
