// Llama, and the families that are Llama but for a bias, a constant or a window.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

// Llama 1 to 3.3, and what was published in its form: Code Llama, TinyLlama, SmolLM2, Yi, DeepSeek LLM, Falcon 3.
// Source of defaults: transformers LlamaConfig.

void read_with_biases(Fields& config, ModelSpec& spec, const DecoderDefaults& defaults) {
  read_decoder(config, spec, defaults);
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_mlp_bias = config.optional_flag("mlp_bias").value_or(false);
}

void read_llama(Fields& config, ModelSpec& spec) { read_with_biases(config, spec, {}); }

// Granite and PowerLM: Llama's tensors; embedding, residual branches and logits are scaled by constants.
// Source of names and defaults: transformers GraniteConfig, modeling_granite.py.

void read_granite(Fields& config, ModelSpec& spec) {
  read_with_biases(config, spec, {.num_attention_heads = 32, .vocab_size = 32000});
  spec.scales_embedding = true;  // by embedding_multiplier, whatever it is
}

// InternLM (the first generation, remote code): Llama with biases on q, k, v and o.
// Source of names and defaults: configuration_internlm.py of internlm/internlm-7b.

void read_internlm(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .vocab_size = 103168});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("bias").value_or(true);
}

// Seed-OSS: Llama with biases on q, k and v. Source of names and defaults: transformers SeedOssConfig.

void read_seed_oss(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.head_dim = 128, .max_position_embeddings = 524288});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = config.optional_flag("attention_bias").value_or(true);
  spec.has_o_bias = config.optional_flag("attention_out_bias").value_or(false);
  spec.has_mlp_bias = config.optional_flag("mlp_bias").value_or(false);
}

// Hunyuan, dense: Llama with a norm per head on q and k, after the rotation, under names of its own.
// Source of names and defaults: transformers HunYuanDenseV1Config, modeling_hunyuan_v1_dense.py.

void read_hunyuan(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .vocab_size = 290943});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.qk_norm = QkNorm::PerHead;
}

ModelWeights list_hunyuan(const ModelSpec& spec) {
  ModelWeights weights = pre_norm_weights(spec);
  for (WeightTensor& tensor : weights.kinds.front().tensors) {
    if (tensor.name == "self_attn.q_norm.weight") tensor.name = "self_attn.query_layernorm.weight";
    if (tensor.name == "self_attn.k_norm.weight") tensor.name = "self_attn.key_layernorm.weight";
  }
  return weights;
}

// SmolLM3: Llama's tensors. Every fourth layer has no rotary embedding, which changes no tensor.
// Source of defaults: transformers SmolLM3Config.

void read_smollm3(Fields& config, ModelSpec& spec) {
  read_with_biases(config, spec,
                   {.num_key_value_heads = 4, .max_position_embeddings = 32768, .tie_word_embeddings = true});
  read_optional_window(config, spec, 0);
}

}  // namespace

constinit const Family kLlama{.name = "llama",
                              .model_type = "llama",
                              .architecture = "LlamaForCausalLM",
                              .is_executable = true,
                              .read = read_llama,
                              .list = pre_norm_weights};
constinit const Family kGranite{.name = "granite",
                                .model_type = "granite",
                                .architecture = "GraniteForCausalLM",
                                .read = read_granite,
                                .list = pre_norm_weights};
constinit const Family kInternLm{.name = "internlm",
                                 .model_type = "internlm",
                                 .architecture = "InternLMForCausalLM",
                                 .read = read_internlm,
                                 .list = pre_norm_weights};
constinit const Family kSeedOss{.name = "seed_oss",
                                .model_type = "seed_oss",
                                .architecture = "SeedOssForCausalLM",
                                .read = read_seed_oss,
                                .list = pre_norm_weights};
constinit const Family kHunyuan{.name = "hunyuan_v1_dense",
                                .model_type = "hunyuan_v1_dense",
                                .architecture = "HunYuanDenseV1ForCausalLM",
                                .read = read_hunyuan,
                                .list = list_hunyuan};
constinit const Family kSmolLm3{.name = "smollm3",
                                .model_type = "smollm3",
                                .architecture = "SmolLM3ForCausalLM",
                                .read = read_smollm3,
                                .list = pre_norm_weights};

}  // namespace gpuplan
