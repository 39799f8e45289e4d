// OPT: learned positions (with two rows of offset), LayerNorms before each branch, ReLU, biases everywhere. 350M alone
// norms the residual sum, has no final norm, and keeps a narrower embedding with projections behind it. Source of names
// and defaults: transformers OPTConfig, modeling_opt.py.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kPositionOffset = 2;  // OPTLearnedPositionalEmbedding

void read_opt(Fields& config, ModelSpec& spec) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(768);
  spec.num_hidden_layers = config.optional_integer("num_hidden_layers", kLayerRange).value_or(12);
  spec.num_attention_heads = spec.num_key_value_heads =
      config.optional_integer("num_attention_heads", kHeadRange).value_or(12);
  spec.intermediate_size = read_either(config, "ffn_dim", "intermediate_size", kFfnRange, 3072);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(50272);
  spec.max_position_embeddings = config.optional_integer("max_position_embeddings", kPositionRange).value_or(2048);
  spec.learned_positions = spec.max_position_embeddings + kPositionOffset;
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  const std::int64_t embedding = config.optional_integer("word_embed_proj_dim", kWidthRange).value_or(spec.hidden_size);
  spec.embedding_size = embedding != spec.hidden_size ? embedding : 0;
  const bool is_pre = config.optional_flag("do_layer_norm_before").value_or(true);
  spec.norm_placement = is_pre ? NormPlacement::Pre : NormPlacement::PostResidual;
  spec.has_final_norm = is_pre && !config.optional_flag("_remove_final_layer_norm").value_or(false);
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.position = PositionKind::Learned;
  spec.activation = read_activation(config, "activation_function", "relu");
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = config.optional_flag("enable_bias").value_or(true);
  spec.residual_dropout = read_dropout(config, "dropout", kDefaultDropout);
  spec.attention_dropout = read_dropout(config, "attention_dropout", 0);
  if (!config.optional_flag("layer_norm_elementwise_affine").value_or(true))
    config.report("layer_norm_elementwise_affine", "norms without weights are not modelled here");
  check_heads(config, spec, std::nullopt);
}

/// A projection at an end of the model. Not a Linear here, so that neither adapters nor quantisation touch it: half a
/// million parameters of one model.
WeightTensor projection(const std::string& name, std::int64_t in, std::int64_t out) {
  return {.name = name + ".weight", .shape = {out, in}, .role = WeightRole::Stacked, .in = in, .out = out};
}

ModelWeights list_opt(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size;
  const bool has_bias = spec.has_mlp_bias;
  Tensors layer;
  add_linear(layer, LinearSlot::K, "self_attn.k_proj", hidden, hidden, has_bias);
  add_linear(layer, LinearSlot::V, "self_attn.v_proj", hidden, hidden, has_bias);
  add_linear(layer, LinearSlot::Q, "self_attn.q_proj", hidden, hidden, has_bias);
  add_linear(layer, LinearSlot::O, "self_attn.out_proj", hidden, hidden, has_bias);
  add_norm_of(layer, spec, "self_attn_layer_norm");
  add_linear(layer, LinearSlot::Up, "fc1", hidden, spec.intermediate_size, has_bias);
  add_linear(layer, LinearSlot::Down, "fc2", spec.intermediate_size, hidden, has_bias);
  add_norm_of(layer, spec, "final_layer_norm");
  ModelWeights weights;
  add_layers(weights, spec, "model.decoder.layers.{}.", std::move(layer));
  add_embedding(weights, spec, "model.decoder.embed_tokens");
  weights.before.push_back({.name = "model.decoder.embed_positions.weight",
                            .shape = {spec.learned_positions, hidden},
                            .role = WeightRole::Position});
  if (spec.embedding_size > 0) {
    weights.before.push_back(projection("model.decoder.project_in", spec.embedding_size, hidden));
    weights.after.push_back(projection("model.decoder.project_out", hidden, spec.embedding_size));
  }
  if (spec.has_final_norm) add_norm_of(weights.after, spec, "model.decoder.final_layer_norm");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kOpt{
    .name = "opt", .model_type = "opt", .architecture = "OPTForCausalLM", .read = read_opt, .list = list_opt};

}  // namespace gpuplan
