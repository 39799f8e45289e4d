// StarCoder 2: grouped key-value heads, rotary positions and a window, with GPT-2's LayerNorms, biases and plain MLP.
// Source of names and defaults: transformers Starcoder2Config, modeling_starcoder2.py.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_starcoder2(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 24,
                .num_key_value_heads = 2,
                .vocab_size = 49152,
                .max_position_embeddings = 4096,
                .tie_word_embeddings = true});
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.activation = read_activation(config, "hidden_act", "gelu_pytorch_tanh");
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = config.optional_flag("use_bias").value_or(true);
  spec.residual_dropout = read_dropout(config, "residual_dropout", 0);
  spec.sliding_window = config.optional_integer("sliding_window", kPositionRange).value_or(0);
  read_sliding_layers(config, spec, spec.num_hidden_layers);
}

ModelWeights list_starcoder2(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_linear(layer, LinearSlot::Up, "mlp.c_fc", spec.hidden_size, spec.intermediate_size, spec.has_mlp_bias);
  add_linear(layer, LinearSlot::Down, "mlp.c_proj", spec.intermediate_size, spec.hidden_size, spec.has_mlp_bias);
  add_norm_of(layer, spec, "input_layernorm");
  add_norm_of(layer, spec, "post_attention_layernorm");
  return decoder_weights(spec, std::move(layer));
}

}  // namespace

constinit const Family kStarCoder2{.name = "starcoder2",
                                   .model_type = "starcoder2",
                                   .architecture = "Starcoder2ForCausalLM",
                                   .read = read_starcoder2,
                                   .list = list_starcoder2};

}  // namespace gpuplan
