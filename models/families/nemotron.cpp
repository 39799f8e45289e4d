// Nemotron (dense: Nemotron-Mini, Minitron), Arcee AFM and Apertus: Llama's attention and a plain MLP, with a squared
// ReLU or, in Apertus, xIELU. Nemotron has LayerNorms whose weight is added to one, and rotates half of each head.
// Source of names and defaults: transformers NemotronConfig, ArceeConfig, ApertusConfig and their models.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_squared_relu(Fields& config, ModelSpec& spec, const DecoderDefaults& defaults) {
  read_decoder(config, spec, defaults);
  spec.mlp = MlpKind::Plain;
  spec.activation = read_activation(config, "hidden_act", "relu2");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_mlp_bias = config.optional_flag("mlp_bias").value_or(false);
}

void read_nemotron(Fields& config, ModelSpec& spec) {
  read_squared_relu(config, spec, {.num_attention_heads = 48, .vocab_size = 256000, .max_position_embeddings = 4096});
  spec.norm = NormKind::LayerNorm;
  spec.rotary_fraction = read_rotary_fraction(config, "partial_rotary_factor", 0.5);
}

void read_arcee(Fields& config, ModelSpec& spec) {
  read_squared_relu(config, spec, {.num_attention_heads = 32, .vocab_size = 32000, .max_position_embeddings = 4096});
}

ModelWeights list_squared_relu(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_linear(layer, LinearSlot::Up, "mlp.up_proj", spec.hidden_size, spec.intermediate_size, spec.has_mlp_bias);
  add_linear(layer, LinearSlot::Down, "mlp.down_proj", spec.intermediate_size, spec.hidden_size, spec.has_mlp_bias);
  add_norm_of(layer, spec, "input_layernorm");
  add_norm_of(layer, spec, "post_attention_layernorm");
  return decoder_weights(spec, std::move(layer));
}

// Apertus: norms per head on queries and keys; an activation with two learned numbers.

void read_apertus(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_attention_heads = 32, .vocab_size = 131072, .intermediate_size = 14336, .max_position_embeddings = 65536});
  spec.mlp = MlpKind::Plain;
  spec.qk_norm = QkNorm::PerHead;
  spec.activation = read_activation(config, "hidden_act", "xielu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  for (const char* key : {"post_norm", "qk_norm"})  // of early files: false and true in all of them
    if (config.optional_flag(key).value_or(std::string_view(key) == "qk_norm") != (std::string_view(key) == "qk_norm"))
      config.report(key, "this form of Apertus is not modelled");
}

ModelWeights list_apertus(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_linear(layer, LinearSlot::Up, "mlp.up_proj", spec.hidden_size, spec.intermediate_size);
  add_linear(layer, LinearSlot::Down, "mlp.down_proj", spec.intermediate_size, spec.hidden_size);
  if (spec.activation == "xielu")
    for (const char* name : {"mlp.act_fn.alpha_p", "mlp.act_fn.alpha_n"})
      layer.push_back({.name = name, .shape = {1}, .role = WeightRole::Bias});
  add_norm_of(layer, spec, "attention_layernorm");
  add_norm_of(layer, spec, "feedforward_layernorm");
  return decoder_weights(spec, std::move(layer));
}

}  // namespace

constinit const Family kApertus{.name = "apertus",
                                .model_type = "apertus",
                                .architecture = "ApertusForCausalLM",
                                .read = read_apertus,
                                .list = list_apertus};
constinit const Family kNemotron{.name = "nemotron",
                                 .model_type = "nemotron",
                                 .architecture = "NemotronForCausalLM",
                                 .read = read_nemotron,
                                 .list = list_squared_relu};
constinit const Family kArcee{.name = "arcee",
                              .model_type = "arcee",
                              .architecture = "ArceeForCausalLM",
                              .read = read_arcee,
                              .list = list_squared_relu};

}  // namespace gpuplan
