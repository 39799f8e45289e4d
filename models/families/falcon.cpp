// Falcon: q, k and v in one linear. 7B: attention and MLP side by side on one norm, one key-value head. 40B and 180B
// (the "new decoder architecture"): a norm for each, grouped key-value heads. RW: one after the other, ALiBi, biases.
// Source of names and defaults: transformers FalconConfig, modeling_falcon.py.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

std::int64_t read_key_value_heads(Fields& config, const ModelSpec& spec, bool is_new) {
  const std::int64_t stated = read_either(config, "num_kv_heads", "n_head_kv", kHeadRange, spec.num_attention_heads);
  const bool is_multi_query = config.optional_flag("multi_query").value_or(true);
  return is_new || !is_multi_query ? stated : 1;
}

ResidualKind read_residual(Fields& config, bool is_new) {
  if (!is_new && !config.optional_flag("parallel_attn").value_or(true)) return ResidualKind::Sequential;
  const std::int64_t norms = config.optional_integer("num_ln_in_parallel_attn", {1, 2}).value_or(is_new ? 2 : 1);
  return is_new && norms == 2 ? ResidualKind::ParallelTwoNorms : ResidualKind::ParallelOneNorm;
}

void read_falcon(Fields& config, ModelSpec& spec) {
  const bool is_new = config.optional_flag("new_decoder_architecture").value_or(false);
  spec.hidden_size = read_either(config, "n_embed", "hidden_size", kWidthRange, 4544);
  spec.num_hidden_layers = read_either(config, "n_layer", "num_hidden_layers", kLayerRange, 32);
  spec.num_attention_heads = read_either(config, "n_head", "num_attention_heads", kHeadRange, 71);
  spec.num_key_value_heads = read_key_value_heads(config, spec, is_new);
  spec.intermediate_size = read_either(config, "ffn_hidden_size", "intermediate_size", kFfnRange, 4 * spec.hidden_size);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(65024);
  spec.max_position_embeddings = config.optional_integer("max_position_embeddings", kPositionRange).value_or(2048);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.residual = read_residual(config, is_new);
  spec.position = config.optional_flag("alibi").value_or(false) ? PositionKind::Alibi : PositionKind::Rope;
  spec.activation = read_activation(config, "activation", "gelu");
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = config.optional_flag("bias").value_or(false);
  spec.has_fused_qkv = true;
  spec.residual_dropout = read_dropout(config, "hidden_dropout", 0);
  spec.attention_dropout = read_dropout(config, "attention_dropout", 0);
  check_heads(config, spec, std::nullopt);
}

ModelWeights list_falcon(const ModelSpec& spec) {
  const bool has_bias = spec.has_mlp_bias;
  Tensors layer;
  add_linear(layer, LinearSlot::Qkv, "self_attention.query_key_value", spec.hidden_size,
             spec.q_width() + 2 * spec.kv_width(), has_bias);
  add_linear(layer, LinearSlot::O, "self_attention.dense", spec.q_width(), spec.hidden_size, has_bias);
  add_linear(layer, LinearSlot::Up, "mlp.dense_h_to_4h", spec.hidden_size, spec.intermediate_size, has_bias);
  add_linear(layer, LinearSlot::Down, "mlp.dense_4h_to_h", spec.intermediate_size, spec.hidden_size, has_bias);
  const bool has_two = spec.residual == ResidualKind::ParallelTwoNorms;
  add_norm_of(layer, spec, has_two ? "ln_attn" : "input_layernorm");
  if (has_two) add_norm_of(layer, spec, "ln_mlp");
  if (spec.residual == ResidualKind::Sequential) add_norm_of(layer, spec, "post_attention_layernorm");
  ModelWeights weights;
  add_layers(weights, spec, "transformer.h.{}.", std::move(layer));
  add_embedding(weights, spec, "transformer.word_embeddings");
  add_norm_of(weights.after, spec, "transformer.ln_f");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kFalcon{.name = "falcon",
                               .model_type = "falcon",
                               .architecture = "FalconForCausalLM",
                               .read = read_falcon,
                               .list = list_falcon};

}  // namespace gpuplan
