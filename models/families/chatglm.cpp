// ChatGLM 2 and 3, GLM-4-9B (remote code): q, k and v in one linear with biases, few key-value groups, gate and up in
// one linear, half of each head rotated. Source of names and defaults: configuration_chatglm.py and modeling_chatglm.py
// of THUDM/chatglm3-6b.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr double kRotatedShare = 0.5;

void read_chatglm(Fields& config, ModelSpec& spec) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(4096);
  spec.num_hidden_layers = read_either(config, "num_layers", "num_hidden_layers", kLayerRange, 28);
  spec.num_attention_heads = config.optional_integer("num_attention_heads", kHeadRange).value_or(32);
  const bool is_grouped = config.optional_flag("multi_query_attention").value_or(false);
  const std::int64_t groups = config.optional_integer("multi_query_group_num", kHeadRange).value_or(1);
  spec.num_key_value_heads = is_grouped ? groups : spec.num_attention_heads;
  spec.intermediate_size = read_either(config, "ffn_hidden_size", "intermediate_size", kFfnRange, 13696);
  spec.vocab_size = read_either(config, "padded_vocab_size", "vocab_size", kVocabRange, 65024);
  spec.max_position_embeddings = read_either(config, "seq_length", "max_position_embeddings", kPositionRange, 2048);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(false);
  spec.norm = config.optional_flag("rmsnorm").value_or(true) ? NormKind::RmsNorm : NormKind::LayerNorm;
  spec.rotary_fraction = kRotatedShare;
  spec.has_o_bias = spec.has_mlp_bias = config.optional_flag("add_bias_linear").value_or(false);
  spec.has_qkv_bias = spec.has_o_bias || config.optional_flag("add_qkv_bias").value_or(false);
  spec.has_final_norm = config.optional_flag("post_layer_norm").value_or(true);
  spec.has_fused_qkv = spec.has_fused_gate_up = true;
  // CoreAttention of ChatGLM 2 and 3 passes an explicit mask: torch's math kernel. The code of GLM-4-9B has sdpa and
  // flash attention too (CORE_ATTENTION_CLASSES); it came with a vocabulary of its own.
  constexpr std::int64_t kGlm4Vocabulary = 151552;
  spec.materialises_scores = spec.vocab_size != kGlm4Vocabulary;
  spec.residual_dropout = read_dropout(config, "hidden_dropout", 0);
  spec.attention_dropout = read_dropout(config, "attention_dropout", 0);
  if (config.optional_flag("apply_residual_connection_post_layernorm").value_or(false))
    config.report("apply_residual_connection_post_layernorm", "a residual after the norm is not modelled");
  check_heads(config, spec, config.optional_integer("kv_channels", kHeadRange).value_or(128));
}

ModelWeights list_chatglm(const ModelSpec& spec) {
  Tensors layer;
  add_norm_of(layer, spec, "input_layernorm");
  add_linear(layer, LinearSlot::Qkv, "self_attention.query_key_value", spec.hidden_size,
             spec.q_width() + 2 * spec.kv_width(), spec.has_qkv_bias);
  add_linear(layer, LinearSlot::O, "self_attention.dense", spec.q_width(), spec.hidden_size, spec.has_o_bias);
  add_norm_of(layer, spec, "post_attention_layernorm");
  add_linear(layer, LinearSlot::GateUp, "mlp.dense_h_to_4h", spec.hidden_size, 2 * spec.intermediate_size,
             spec.has_mlp_bias);
  add_linear(layer, LinearSlot::Down, "mlp.dense_4h_to_h", spec.intermediate_size, spec.hidden_size, spec.has_mlp_bias);
  ModelWeights weights;
  add_layers(weights, spec, "transformer.encoder.layers.{}.", std::move(layer));
  add_embedding(weights, spec, "transformer.embedding.word_embeddings");
  if (spec.has_final_norm) add_norm_of(weights.after, spec, "transformer.encoder.final_layernorm");
  add_head(weights, spec, "transformer.output_layer");
  return weights;
}

}  // namespace

constinit const Family kChatGlm{.name = "chatglm",
                                .model_type = "chatglm",
                                .architecture = "ChatGLMModel",
                                .other_architecture = "ChatGLMForConditionalGeneration",
                                .read = read_chatglm,
                                .list = list_chatglm};

}  // namespace gpuplan
