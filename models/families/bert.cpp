// BERT and its kin: an encoder whose norms follow the residual sums, with segments beside tokens and positions, and a
// pooler on the first token. Counted as BertModel: what fine-tuning starts from; the pre-training heads are not part of
// it. RoBERTa and XLM-R have the same layers, one segment, and positions that begin behind the padding token. Their
// classifier has a linear of the pooler's size instead of it. Source of names and defaults: huggingface/transformers
// @v4.57.6 BertConfig, RobertaConfig, modeling_bert.py, modeling_roberta.py (RobertaClassificationHead).
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_bert(Fields& config, ModelSpec& spec) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(768);
  spec.num_hidden_layers = config.optional_integer("num_hidden_layers", kLayerRange).value_or(12);
  spec.num_attention_heads = spec.num_key_value_heads =
      config.optional_integer("num_attention_heads", kHeadRange).value_or(12);
  spec.intermediate_size = config.optional_integer("intermediate_size", kFfnRange).value_or(3072);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(30522);
  spec.max_position_embeddings = spec.learned_positions =
      config.optional_integer("max_position_embeddings", kPositionRange).value_or(512);
  spec.token_types = config.optional_integer("type_vocab_size", {1, 1 << 16}).value_or(2);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  spec.norm = NormKind::LayerNorm;
  spec.norm_placement = NormPlacement::PostResidual;
  spec.mlp = MlpKind::Plain;
  spec.position = PositionKind::Learned;
  spec.activation = read_activation(config, "hidden_act", "gelu");
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = spec.has_embedding_norm = true;
  spec.has_final_norm = spec.is_causal = false;
  spec.head = HeadKind::Pooler;
  spec.residual_dropout = read_dropout(config, "hidden_dropout_prob", kDefaultDropout);
  spec.attention_dropout = read_dropout(config, "attention_probs_dropout_prob", kDefaultDropout);
  if (config.optional_flag("is_decoder").value_or(false))
    config.report("is_decoder", "BERT as a decoder is not modelled");
  check_heads(config, spec, std::nullopt);
}

/// Positions are counted from pad_token_id + 1 on: create_position_ids_from_input_ids.
void read_roberta(Fields& config, ModelSpec& spec) {
  read_bert(config, spec);
  constexpr std::int64_t kVocab = 50265, kPadding = 1;
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(kVocab);
  const std::int64_t before = config.optional_integer("pad_token_id", {0, 1 << 16}).value_or(kPadding) + 1;
  if (spec.learned_positions <= before)
    return config.report("max_position_embeddings", "is no more than the positions before the first token");
  spec.max_position_embeddings = spec.learned_positions - before;
}

ModelWeights list_bert(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size;
  Tensors layer;
  add_linear(layer, LinearSlot::Q, "attention.self.query", hidden, hidden, true);
  add_linear(layer, LinearSlot::K, "attention.self.key", hidden, hidden, true);
  add_linear(layer, LinearSlot::V, "attention.self.value", hidden, hidden, true);
  add_linear(layer, LinearSlot::O, "attention.output.dense", hidden, hidden, true);
  add_norm_of(layer, spec, "attention.output.LayerNorm");
  add_linear(layer, LinearSlot::Up, "intermediate.dense", hidden, spec.intermediate_size, true);
  add_linear(layer, LinearSlot::Down, "output.dense", spec.intermediate_size, hidden, true);
  add_norm_of(layer, spec, "output.LayerNorm");
  ModelWeights weights;
  add_layers(weights, spec, "encoder.layer.{}.", std::move(layer));
  weights.kinds.front().name = "encoder layer";
  weights.kinds.front().is_causal = false;
  add_embedding(weights, spec, "embeddings.word_embeddings");
  weights.before.push_back({.name = "embeddings.position_embeddings.weight",
                            .shape = {spec.learned_positions, hidden},
                            .role = WeightRole::Position});
  weights.before.push_back({.name = "embeddings.token_type_embeddings.weight",
                            .shape = {spec.token_types, hidden},
                            .role = WeightRole::Position});
  add_norm_of(weights.before, spec, "embeddings.LayerNorm");
  weights.after.push_back({.name = "pooler.dense.weight",
                           .shape = {hidden, hidden},
                           .role = WeightRole::Head,
                           .in = hidden,
                           .out = hidden});
  weights.after.push_back({.name = "pooler.dense.bias", .shape = {hidden}, .role = WeightRole::Bias});
  return weights;
}

}  // namespace

constinit const Family kBert{.name = "bert",
                             .model_type = "bert",
                             .architecture = "BertModel",
                             .is_encoder = true,
                             .read = read_bert,
                             .list = list_bert};
constinit const Family kRoberta{.name = "roberta",
                                .model_type = "roberta",
                                .architecture = "RobertaModel",
                                .is_encoder = true,
                                .read = read_roberta,
                                .list = list_bert};
constinit const Family kXlmRoberta{.name = "xlm-roberta",
                                   .model_type = "xlm-roberta",
                                   .architecture = "XLMRobertaModel",
                                   .is_encoder = true,
                                   .read = read_roberta,
                                   .list = list_bert};

}  // namespace gpuplan
