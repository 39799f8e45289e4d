// BLOOM: ALiBi, LayerNorms (one after the embedding too), biases everywhere, q, k and v in one linear. Its attention is
// written out in every release of transformers: the scores exist. Its GELU is an autograd function that saves its input
// alone. Source of names and defaults: transformers BloomConfig, modeling_bloom.py.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kTrainedLength = 2048;  // seq_length, where the config leaves it out; ALiBi has no limit

void read_bloom(Fields& config, ModelSpec& spec) {
  spec.hidden_size = read_either(config, "n_embed", "hidden_size", kWidthRange);
  spec.num_hidden_layers = read_either(config, "n_layer", "num_hidden_layers", kLayerRange);
  spec.num_attention_heads = spec.num_key_value_heads =
      read_either(config, "n_head", "num_attention_heads", kHeadRange);
  spec.intermediate_size = 4 * spec.hidden_size;
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(250880);
  spec.max_position_embeddings =
      read_either(config, "seq_length", "max_position_embeddings", kPositionRange, kTrainedLength);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.position = PositionKind::Alibi;
  spec.activation = "gelu_tanh";
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = spec.has_fused_qkv = spec.has_embedding_norm = true;
  spec.materialises_scores = true;
  spec.residual_dropout = read_dropout(config, "hidden_dropout", 0);
  spec.attention_dropout = read_dropout(config, "attention_dropout", 0);
  if (config.optional_flag("apply_residual_connection_post_layernorm").value_or(false))
    config.report("apply_residual_connection_post_layernorm", "a residual after the norm is not modelled");
  check_heads(config, spec, std::nullopt);
}

ModelWeights list_bloom(const ModelSpec& spec) {
  Tensors layer;
  add_norm_of(layer, spec, "input_layernorm");
  add_linear(layer, LinearSlot::Qkv, "self_attention.query_key_value", spec.hidden_size, 3 * spec.hidden_size, true);
  add_linear(layer, LinearSlot::O, "self_attention.dense", spec.hidden_size, spec.hidden_size, true);
  add_norm_of(layer, spec, "post_attention_layernorm");
  add_linear(layer, LinearSlot::Up, "mlp.dense_h_to_4h", spec.hidden_size, spec.intermediate_size, true);
  add_linear(layer, LinearSlot::Down, "mlp.dense_4h_to_h", spec.intermediate_size, spec.hidden_size, true);
  ModelWeights weights;
  add_layers(weights, spec, "transformer.h.{}.", std::move(layer));
  add_embedding(weights, spec, "transformer.word_embeddings");
  add_norm_of(weights.before, spec, "transformer.word_embeddings_layernorm");
  add_norm_of(weights.after, spec, "transformer.ln_f");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kBloom{
    .name = "bloom", .model_type = "bloom", .architecture = "BloomForCausalLM", .read = read_bloom, .list = list_bloom};

}  // namespace gpuplan
