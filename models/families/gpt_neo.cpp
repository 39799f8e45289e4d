// GPT-Neo: GPT-2's layer with a linear each for q, k and v, without their biases. Layers attend to all tokens and to a
// window in turn; both are written out in full, so that the window saves nothing. Source of names and defaults:
// transformers GPTNeoConfig, modeling_gpt_neo.py (GPTNeoSelfAttention).
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_gpt_neo(Fields& config, ModelSpec& spec) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(2048);
  spec.num_hidden_layers = read_either(config, "num_layers", "num_hidden_layers", kLayerRange, 24);
  spec.num_attention_heads = spec.num_key_value_heads =
      read_either(config, "num_heads", "num_attention_heads", kHeadRange, 16);
  spec.intermediate_size = config.optional_integer("intermediate_size", kFfnRange).value_or(4 * spec.hidden_size);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(50257);
  spec.max_position_embeddings = spec.learned_positions =
      config.optional_integer("max_position_embeddings", kPositionRange).value_or(2048);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.position = PositionKind::Learned;
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  spec.has_o_bias = spec.has_mlp_bias = true;
  spec.materialises_scores = true;
  spec.residual_dropout = read_dropout(config, "resid_dropout", 0);
  spec.attention_dropout = read_dropout(config, "attention_dropout", 0);
  check_heads(config, spec, std::nullopt);
}

ModelWeights list_gpt_neo(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size;
  Tensors layer;
  add_layer_norm(layer, "ln_1", hidden);
  add_linear(layer, LinearSlot::K, "attn.attention.k_proj", hidden, hidden);
  add_linear(layer, LinearSlot::V, "attn.attention.v_proj", hidden, hidden);
  add_linear(layer, LinearSlot::Q, "attn.attention.q_proj", hidden, hidden);
  add_linear(layer, LinearSlot::O, "attn.attention.out_proj", hidden, hidden, true);
  add_layer_norm(layer, "ln_2", hidden);
  add_linear(layer, LinearSlot::Up, "mlp.c_fc", hidden, spec.intermediate_size, true);
  add_linear(layer, LinearSlot::Down, "mlp.c_proj", spec.intermediate_size, hidden, true);
  ModelWeights weights;
  add_layers(weights, spec, "transformer.h.{}.", std::move(layer));
  add_embedding(weights, spec, "transformer.wte");
  weights.before.push_back(
      {.name = "transformer.wpe.weight", .shape = {spec.learned_positions, hidden}, .role = WeightRole::Position});
  add_layer_norm(weights.after, "transformer.ln_f", hidden);
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kGptNeo{.name = "gpt_neo",
                               .model_type = "gpt_neo",
                               .architecture = "GPTNeoForCausalLM",
                               .read = read_gpt_neo,
                               .list = list_gpt_neo};

}  // namespace gpuplan
