// Qwen 1 to 3, dense and with experts.
#include <fmt/format.h>

#include "models/families/decoder.h"
#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

// Qwen (the first generation, remote code): Llama's layer under GPT-2's names, q, k and v in one linear with biases.
// The config's intermediate_size counts both branches of the MLP. Logits stay in 16 bit. Source of names and defaults:
// configuration_qwen.py and modeling_qwen.py of Qwen/Qwen-7B.

std::int64_t read_half_width(Fields& config) {
  const std::int64_t both = config.optional_integer("intermediate_size", kFfnRange).value_or(22016);
  if (both % 2 != 0) config.report("intermediate_size", fmt::format("{} is odd, but counts two branches", both));
  return both / 2;
}

void read_qwen(Fields& config, ModelSpec& spec) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(4096);
  spec.num_hidden_layers = config.optional_integer("num_hidden_layers", kLayerRange).value_or(32);
  spec.num_attention_heads = spec.num_key_value_heads =
      config.optional_integer("num_attention_heads", kHeadRange).value_or(32);
  spec.intermediate_size = read_half_width(config);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(151936);
  spec.max_position_embeddings = read_either(config, "seq_length", "max_position_embeddings", kPositionRange, 8192);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(false);
  spec.has_qkv_bias = spec.has_fused_qkv = true;
  spec.has_o_bias = spec.has_mlp_bias = !config.optional_flag("no_bias").value_or(true);
  spec.keeps_16bit_logits = true;
  spec.residual_dropout = read_dropout(config, "emb_dropout_prob", 0);  // of the embedding and after each branch
  spec.attention_dropout = read_dropout(config, "attn_dropout_prob", 0);
  check_heads(config, spec, config.optional_integer("kv_channels", kHeadRange).value_or(128));
}

ModelWeights list_qwen(const ModelSpec& spec) {
  Tensors layer;
  add_norm_of(layer, spec, "ln_1");
  add_linear(layer, LinearSlot::Qkv, "attn.c_attn", spec.hidden_size, 3 * spec.q_width(), true);
  add_linear(layer, LinearSlot::O, "attn.c_proj", spec.q_width(), spec.hidden_size, spec.has_o_bias);
  add_norm_of(layer, spec, "ln_2");
  add_linear(layer, LinearSlot::Up, "mlp.w1", spec.hidden_size, spec.intermediate_size, spec.has_mlp_bias);
  add_linear(layer, LinearSlot::Gate, "mlp.w2", spec.hidden_size, spec.intermediate_size, spec.has_mlp_bias);
  add_linear(layer, LinearSlot::Down, "mlp.c_proj", spec.intermediate_size, spec.hidden_size, spec.has_mlp_bias);
  ModelWeights weights;
  add_layers(weights, spec, "transformer.h.{}.", std::move(layer));
  add_embedding(weights, spec, "transformer.wte");
  add_norm_of(weights.after, spec, "transformer.ln_f");
  add_head(weights, spec);
  return weights;
}

constexpr std::int64_t kDefaultFullLayers = 28;  // max_window_layers

// Qwen 1.5, 2 and 2.5, dense: Llama's tensors with biases on q, k and v, always.
// Source of defaults: transformers Qwen2Config.

void read_qwen2(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_key_value_heads = 32, .max_position_embeddings = 32768});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = true;
  read_optional_window(config, spec, kDefaultFullLayers);
}

// Qwen 3, dense: no biases, but a norm per head on q and k; heads of 128 whatever the width.
// Source of defaults: transformers Qwen3Config.

void read_qwen3(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_key_value_heads = 32, .head_dim = 128, .max_position_embeddings = 32768});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.qk_norm = QkNorm::PerHead;
  read_optional_window(config, spec, kDefaultFullLayers);
}

// Qwen 1.5 and 2 MoE: Qwen 2's attention with its biases; many small experts and a shared one behind a sigmoid switch.
// Source of names and defaults: transformers Qwen2MoeConfig, modeling_qwen2_moe.py.

void read_qwen2_moe(Fields& config, ModelSpec& spec) {
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

ModelWeights list_qwen2_moe(const ModelSpec& spec) { return pre_norm_moe_weights(spec); }

// Qwen 3 MoE: Qwen 3's attention, many small experts, none shared.
// Source of names and defaults: transformers Qwen3MoeConfig, modeling_qwen3_moe.py. (The published configs state
// head_dim 128; the class derives it from the width.)

void read_qwen3_moe(Fields& config, ModelSpec& spec) {
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

ModelWeights list_qwen3_moe(const ModelSpec& spec) { return pre_norm_moe_weights(spec); }

}  // namespace

constinit const Family kQwen{
    .name = "qwen", .model_type = "qwen", .architecture = "QWenLMHeadModel", .read = read_qwen, .list = list_qwen};
constinit const Family kQwen2{.name = "qwen2",
                              .model_type = "qwen2",
                              .architecture = "Qwen2ForCausalLM",
                              .is_executable = true,
                              .read = read_qwen2,
                              .list = pre_norm_weights};
constinit const Family kQwen3{.name = "qwen3",
                              .model_type = "qwen3",
                              .architecture = "Qwen3ForCausalLM",
                              .is_executable = true,
                              .read = read_qwen3,
                              .list = pre_norm_weights};
constinit const Family kQwen2Moe{.name = "qwen2_moe",
                                 .model_type = "qwen2_moe",
                                 .architecture = "Qwen2MoeForCausalLM",
                                 .read = read_qwen2_moe,
                                 .list = list_qwen2_moe};
constinit const Family kQwen3Moe{.name = "qwen3_moe",
                                 .model_type = "qwen3_moe",
                                 .architecture = "Qwen3MoeForCausalLM",
                                 .read = read_qwen3_moe,
                                 .list = list_qwen3_moe};

}  // namespace gpuplan
