// DeBERTa v2 and v3: an encoder like BERT without a pooler, whose attention also scores contents against relative
// positions. One table of positions, in buckets that widen with the distance, serves every layer; v3 projects it with
// the projections of the tokens. Counted as DebertaV2Model; a classifier brings a linear. Source of names and defaults:
// transformers 4.58 (8b-is/transformers @e8c4f0b7) configuration_deberta_v2.py, modeling_deberta_v2.py
// (DisentangledSelfAttention, DebertaV2Encoder, ContextPooler).
#include <fmt/format.h>

#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

/// Words of a list, or of one text with bars between them ("p2c|c2p").
bool has_word(Fields& config, const char* key, std::string_view word) {
  const nlohmann::json* value = config.find(key);
  if (!value) return false;
  const std::string text = fmt::format("|{}|", value->is_string() ? value->get<std::string>() : std::string());
  if (value->is_string()) return text.find(fmt::format("|{}|", word)) != std::string::npos;
  return value->is_array() && std::ranges::find(*value, nlohmann::json(word)) != value->end();
}

void read_relative_scores(Fields& config, ModelSpec& spec) {
  if (!config.optional_flag("relative_attention").value_or(false)) return;
  const std::int64_t stated = config.optional_integer("max_relative_positions", {-1, kPositionRange.most}).value_or(-1);
  const std::int64_t buckets = config.optional_integer("position_buckets", {-1, kPositionRange.most}).value_or(-1);
  const std::int64_t reach = stated < 1 ? spec.max_position_embeddings : stated;
  spec.relative_scores = {.positions = 2 * (buckets > 0 ? buckets : reach),
                          .content_to_position = has_word(config, "pos_att_type", "c2p"),
                          .position_to_content = has_word(config, "pos_att_type", "p2c"),
                          .shares_projections = config.optional_flag("share_att_key").value_or(false),
                          .norms_table = has_word(config, "norm_rel_ebd", "layer_norm")};
  spec.position = PositionKind::RelativeBias;
}

void read_deberta(Fields& config, ModelSpec& spec) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(1536);
  spec.num_hidden_layers = config.optional_integer("num_hidden_layers", kLayerRange).value_or(24);
  spec.num_attention_heads = spec.num_key_value_heads =
      config.optional_integer("num_attention_heads", kHeadRange).value_or(24);
  spec.intermediate_size = config.optional_integer("intermediate_size", kFfnRange).value_or(6144);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(128100);
  spec.max_position_embeddings = config.optional_integer("max_position_embeddings", kPositionRange).value_or(512);
  if (config.optional_flag("position_biased_input").value_or(true))
    spec.learned_positions = spec.max_position_embeddings;
  spec.token_types = config.optional_integer("type_vocab_size", {0, 1 << 16}).value_or(0);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  spec.norm = NormKind::LayerNorm;
  spec.norm_placement = NormPlacement::PostResidual;
  spec.mlp = MlpKind::Plain;
  spec.position = PositionKind::Learned;
  spec.activation = read_activation(config, "hidden_act", "gelu");
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = spec.has_embedding_norm = true;
  spec.has_final_norm = spec.is_causal = false;
  spec.materialises_scores = true;
  spec.head = HeadKind::Pooler;
  spec.residual_dropout = read_dropout(config, "hidden_dropout_prob", kDefaultDropout);
  spec.attention_dropout = read_dropout(config, "attention_probs_dropout_prob", kDefaultDropout);
  read_relative_scores(config, spec);
  if (config.optional_integer("conv_kernel_size", {0, 1 << 10}).value_or(0) > 0)
    config.report("conv_kernel_size", "DeBERTa with a convolution behind its first layer is not modelled");
  if (config.optional_integer("embedding_size", kWidthRange).value_or(spec.hidden_size) != spec.hidden_size)
    config.report("embedding_size", "DeBERTa with another width of the embedding is not modelled");
  check_heads(config, spec, std::nullopt);
}

ModelWeights list_deberta(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size;
  const RelativeScores& relative = spec.relative_scores;
  Tensors layer;
  add_linear(layer, LinearSlot::Q, "attention.self.query_proj", hidden, hidden, true);
  add_linear(layer, LinearSlot::K, "attention.self.key_proj", hidden, hidden, true);
  add_linear(layer, LinearSlot::V, "attention.self.value_proj", hidden, hidden, true);
  if (relative.is_present() && !relative.shares_projections) {
    if (relative.content_to_position)
      add_linear(layer, LinearSlot::PositionK, "attention.self.pos_key_proj", hidden, hidden, true);
    if (relative.position_to_content)
      add_linear(layer, LinearSlot::PositionQ, "attention.self.pos_query_proj", hidden, hidden, true);
  }
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
  const auto add_table = [&](const char* name, std::int64_t rows) {
    if (rows > 0) weights.before.push_back({.name = name, .shape = {rows, hidden}, .role = WeightRole::Position});
  };
  add_table("embeddings.position_embeddings.weight", spec.learned_positions);
  add_table("embeddings.token_type_embeddings.weight", spec.token_types);
  add_norm_of(weights.before, spec, "embeddings.LayerNorm");
  add_table("encoder.rel_embeddings.weight", relative.positions);
  if (relative.norms_table) add_norm_of(weights.before, spec, "encoder.LayerNorm");
  weights.classifier.push_back({.name = "pooler.dense.weight",
                                .shape = {hidden, hidden},
                                .role = WeightRole::Head,
                                .in = hidden,
                                .out = hidden});
  weights.classifier.push_back({.name = "pooler.dense.bias", .shape = {hidden}, .role = WeightRole::Bias});
  return weights;
}

}  // namespace

constinit const Family kDebertaV2{.name = "deberta-v2",
                                  .model_type = "deberta-v2",
                                  .architecture = "DebertaV2Model",
                                  .is_encoder = true,
                                  .read = read_deberta,
                                  .list = list_deberta};

}  // namespace gpuplan
