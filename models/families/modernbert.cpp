// ModernBERT: an encoder whose layers norm before their branches, with rotated positions, a fused gated MLP and no
// biases. Of every few layers the first attends to the whole sequence, the others to a window around the token; the
// first layer's attention reads the normed embedding as it is. Counted as ModernBertModel; a classifier brings a linear
// and a norm. Source of names and defaults: transformers 4.58 (8b-is/transformers @e8c4f0b7)
// configuration_modernbert.py, modeling_modernbert.py (ModernBertPredictionHead).
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_modernbert(Fields& config, ModelSpec& spec) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(768);
  spec.num_hidden_layers = config.optional_integer("num_hidden_layers", kLayerRange).value_or(22);
  spec.num_attention_heads = spec.num_key_value_heads =
      config.optional_integer("num_attention_heads", kHeadRange).value_or(12);
  spec.intermediate_size = config.optional_integer("intermediate_size", kFfnRange).value_or(1152);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(50368);
  spec.max_position_embeddings = config.optional_integer("max_position_embeddings", kPositionRange).value_or(8192);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Gated;
  spec.activation = read_activation(config, "hidden_activation", "gelu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_mlp_bias = config.optional_flag("mlp_bias").value_or(false);
  spec.has_embedding_norm = spec.has_fused_qkv = spec.has_fused_gate_up = true;
  spec.is_causal = false;
  spec.head = HeadKind::Pooler;
  spec.attention_dropout = read_dropout(config, "attention_dropout", 0);
  spec.mlp_dropout = read_dropout(config, "mlp_dropout", 0);
  for (const char* key : {"norm_bias", "classifier_bias"})
    if (config.optional_flag(key).value_or(false)) config.report(key, "ModernBERT with this bias is not modelled");
  check_heads(config, spec, std::nullopt);
  if (config.has_problems()) return;
  constexpr std::int64_t kWindow = 128, kEvery = 3;
  const std::int64_t every = config.optional_integer("global_attn_every_n_layers", kLayerRange).value_or(kEvery);
  spec.sliding_window = config.optional_integer("local_attention", kPositionRange).value_or(kWindow);
  spec.starts_with_global = true;
  read_sliding_layers(config, spec, spec.num_hidden_layers - (spec.num_hidden_layers + every - 1) / every);
}

ModelWeights list_modernbert(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size;
  Tensors first;
  add_linear(first, LinearSlot::Qkv, "attn.Wqkv", hidden, 3 * spec.q_width(), spec.has_qkv_bias);
  add_linear(first, LinearSlot::O, "attn.Wo", spec.q_width(), hidden, spec.has_o_bias);
  add_norm(first, "mlp_norm", hidden);
  add_linear(first, LinearSlot::GateUp, "mlp.Wi", hidden, 2 * spec.intermediate_size, spec.has_mlp_bias);
  add_linear(first, LinearSlot::Down, "mlp.Wo", spec.intermediate_size, hidden, spec.has_mlp_bias);
  Tensors layer = first;
  add_norm(layer, "attn_norm", hidden);
  ModelWeights weights;
  add_layers(weights, spec, "layers.{}.", std::move(layer));
  weights.kinds.front().name = "encoder layer";
  weights.kinds.front().is_causal = false;
  LayerKind unnormed = weights.kinds.front();
  unnormed.name = "first encoder layer";
  unnormed.tensors = std::move(first);
  unnormed.has_attention_norm = false;
  weights.kinds.push_back(std::move(unnormed));
  weights.order.front() = 1;
  add_embedding(weights, spec, "embeddings.tok_embeddings");
  add_norm(weights.before, "embeddings.norm", hidden);
  add_norm(weights.after, "final_norm", hidden);
  weights.classifier.push_back(
      {.name = "head.dense.weight", .shape = {hidden, hidden}, .role = WeightRole::Head, .in = hidden, .out = hidden});
  add_norm(weights.classifier, "head.norm", hidden);
  return weights;
}

}  // namespace

constinit const Family kModernBert{.name = "modernbert",
                                   .model_type = "modernbert",
                                   .architecture = "ModernBertModel",
                                   .is_encoder = true,
                                   .read = read_modernbert,
                                   .list = list_modernbert};

}  // namespace gpuplan
