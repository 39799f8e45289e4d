// GPT-J: attention and MLP side by side on one LayerNorm; biases in the MLP and the head only; the first rotary_dim
// features of a head are rotated. Source of names and defaults: transformers GPTJConfig, modeling_gptj.py.
#include <cmath>

#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kDefaultRotated = 64;

/// rotary_dim is a number of features; null rotates all.
double read_rotated_share(Fields& config, const ModelSpec& spec) {
  const std::int64_t rotated = config.optional_integer("rotary_dim", {0, kHeadRange.most})
                                   .value_or(config.has("rotary_dim") ? spec.head_dim : kDefaultRotated);
  if (spec.head_dim == 0) return 1;  // already reported
  return std::min(1.0, double(rotated) / double(spec.head_dim));
}

void read_gptj(Fields& config, ModelSpec& spec) {
  spec.hidden_size = read_either(config, "n_embd", "hidden_size", kWidthRange, 4096);
  spec.num_hidden_layers = read_either(config, "n_layer", "num_hidden_layers", kLayerRange, 28);
  spec.num_attention_heads = spec.num_key_value_heads =
      read_either(config, "n_head", "num_attention_heads", kHeadRange, 16);
  spec.max_position_embeddings = read_either(config, "n_positions", "max_position_embeddings", kPositionRange, 2048);
  spec.intermediate_size = read_either(config, "n_inner", "intermediate_size", kFfnRange, 4 * spec.hidden_size);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(50400);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(false);
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.residual = ResidualKind::ParallelOneNorm;
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  spec.has_mlp_bias = spec.has_head_bias = true;
  spec.residual_dropout = read_dropout(config, "resid_pdrop", 0);
  spec.attention_dropout = read_dropout(config, "attn_pdrop", 0);
  check_heads(config, spec, std::nullopt);
  spec.rotary_fraction = read_rotated_share(config, spec);
}

ModelWeights list_gptj(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size;
  Tensors layer;
  add_norm_of(layer, spec, "ln_1");
  add_linear(layer, LinearSlot::K, "attn.k_proj", hidden, hidden);
  add_linear(layer, LinearSlot::V, "attn.v_proj", hidden, hidden);
  add_linear(layer, LinearSlot::Q, "attn.q_proj", hidden, hidden);
  add_linear(layer, LinearSlot::O, "attn.out_proj", hidden, hidden);
  add_linear(layer, LinearSlot::Up, "mlp.fc_in", hidden, spec.intermediate_size, true);
  add_linear(layer, LinearSlot::Down, "mlp.fc_out", spec.intermediate_size, hidden, true);
  ModelWeights weights;
  add_layers(weights, spec, "transformer.h.{}.", std::move(layer));
  add_embedding(weights, spec, "transformer.wte");
  add_norm_of(weights.after, spec, "transformer.ln_f");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kGptJ{
    .name = "gptj", .model_type = "gptj", .architecture = "GPTJForCausalLM", .read = read_gptj, .list = list_gptj};

}  // namespace gpuplan
