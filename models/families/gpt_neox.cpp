// GPT-NeoX, Pythia, StableLM Base Alpha: attention and MLP side by side, a LayerNorm for each; q, k and v in one
// linear; biases everywhere but in the head; a quarter of each head is rotated. Source of names and defaults:
// transformers GPTNeoXConfig, modeling_gpt_neox.py.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_gpt_neox(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 64, .vocab_size = 50432});
  spec.num_key_value_heads = spec.num_attention_heads;
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.residual = config.optional_flag("use_parallel_residual").value_or(true) ? ResidualKind::ParallelTwoNorms
                                                                               : ResidualKind::Sequential;
  spec.activation = read_activation(config, "hidden_act", "gelu");
  spec.rotary_fraction = read_rotary_fraction(config, "rotary_pct", 0.25);
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(true);
  spec.has_mlp_bias = spec.has_fused_qkv = true;
  spec.residual_dropout = read_dropout(config, "hidden_dropout", 0);
}

ModelWeights list_gpt_neox(const ModelSpec& spec) {
  Tensors layer;
  add_norm_of(layer, spec, "input_layernorm");
  add_norm_of(layer, spec, "post_attention_layernorm");
  add_linear(layer, LinearSlot::Qkv, "attention.query_key_value", spec.hidden_size, 3 * spec.q_width(),
             spec.has_qkv_bias);
  add_linear(layer, LinearSlot::O, "attention.dense", spec.q_width(), spec.hidden_size, spec.has_o_bias);
  add_linear(layer, LinearSlot::Up, "mlp.dense_h_to_4h", spec.hidden_size, spec.intermediate_size, true);
  add_linear(layer, LinearSlot::Down, "mlp.dense_4h_to_h", spec.intermediate_size, spec.hidden_size, true);
  ModelWeights weights;
  add_layers(weights, spec, "gpt_neox.layers.{}.", std::move(layer));
  add_embedding(weights, spec, "gpt_neox.embed_in");
  add_norm_of(weights.after, spec, "gpt_neox.final_layer_norm");
  add_head(weights, spec, "embed_out");
  return weights;
}

}  // namespace

constinit const Family kGptNeoX{.name = "gpt_neox",
                                .model_type = "gpt_neox",
                                .architecture = "GPTNeoXForCausalLM",
                                .read = read_gpt_neox,
                                .list = list_gpt_neox};

}  // namespace gpuplan
