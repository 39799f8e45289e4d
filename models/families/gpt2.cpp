// GPT-2 (and the GPT-3 shape): learned positions, LayerNorms and biases everywhere, Conv1D weights stored [in, out].
// Source of names and defaults: transformers GPT2Config; its attribute map also allows the usual names.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_gpt2(Fields& config, ModelSpec& spec) {
  spec.hidden_size = read_either(config, "n_embd", "hidden_size", kWidthRange);
  spec.num_hidden_layers = read_either(config, "n_layer", "num_hidden_layers", kLayerRange);
  spec.num_attention_heads = spec.num_key_value_heads =
      read_either(config, "n_head", "num_attention_heads", kHeadRange);
  spec.max_position_embeddings = spec.learned_positions =
      read_either(config, "n_positions", "max_position_embeddings", kPositionRange);
  const auto inner = config.optional_integer("n_inner", kFfnRange);
  const auto usual_inner = config.optional_integer("intermediate_size", kFfnRange);
  spec.intermediate_size = inner ? *inner : usual_inner.value_or(4 * spec.hidden_size);
  spec.vocab_size = config.integer("vocab_size", kVocabRange);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.position = PositionKind::Learned;
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = spec.has_fused_qkv = true;
  spec.residual_dropout = read_dropout(config, "resid_pdrop", kDefaultDropout);
  spec.attention_dropout = read_dropout(config, "attn_pdrop", kDefaultDropout);
  if (config.optional_flag("add_cross_attention").value_or(false))
    config.report("add_cross_attention", "cross-attention is not modelled");
  check_heads(config, spec, std::nullopt);
}

void add_conv1d(Tensors& tensors, LinearSlot slot, const std::string& name, std::int64_t in, std::int64_t out) {
  tensors.push_back(
      {.name = name + ".weight", .shape = {in, out}, .role = WeightRole::Linear, .in = in, .out = out, .slot = slot});
  tensors.push_back({.name = name + ".bias", .shape = {out}, .role = WeightRole::Bias});
}

ModelWeights list_gpt2(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size;
  ModelWeights weights;
  Tensors layer;
  add_embedding(weights, spec, "transformer.wte");
  weights.before.push_back(
      {.name = "transformer.wpe.weight", .shape = {spec.learned_positions, hidden}, .role = WeightRole::Position});
  add_layer_norm(layer, "ln_1", hidden);
  add_conv1d(layer, LinearSlot::Qkv, "attn.c_attn", hidden, spec.q_width() + 2 * spec.kv_width());
  add_conv1d(layer, LinearSlot::O, "attn.c_proj", spec.q_width(), hidden);
  add_layer_norm(layer, "ln_2", hidden);
  add_conv1d(layer, LinearSlot::Up, "mlp.c_fc", hidden, spec.intermediate_size);
  add_conv1d(layer, LinearSlot::Down, "mlp.c_proj", spec.intermediate_size, hidden);
  add_layers(weights, spec, "transformer.h.{}.", std::move(layer));
  add_layer_norm(weights.after, "transformer.ln_f", hidden);
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kGpt2{
    .name = "gpt2", .model_type = "gpt2", .architecture = "GPT2LMHeadModel", .read = read_gpt2, .list = list_gpt2};

}  // namespace gpuplan
