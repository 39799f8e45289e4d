#include "models/families/gemma_norms.h"

namespace gpuplan {

ModelWeights sandwich_norm_weights(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_gated_mlp(layer, spec);
  for (const char* name :
       {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
    add_norm(layer, name, spec.hidden_size);
  return decoder_weights(spec, std::move(layer));
}

void read_sandwich(Fields& config, ModelSpec& spec, std::int64_t default_window, std::int64_t period) {
  spec.norm = NormKind::GemmaRmsNorm;
  spec.scales_embedding = true;
  spec.norm_placement = NormPlacement::Sandwich;
  spec.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.sliding_window = config.optional_integer("sliding_window", kPositionRange).value_or(default_window);
  read_sliding_layers(config, spec, spec.num_hidden_layers - spec.num_hidden_layers / period);
}

void write_sandwich(const ModelSpec& spec, nlohmann::json& config, std::int64_t period) {
  write_decoder(spec, config);
  config["hidden_activation"] = hf_activation(spec.activation);
  config["attention_bias"] = spec.has_qkv_bias;
  if (spec.sliding_window > 0) config["sliding_window"] = spec.sliding_window;
  if (spec.sliding_layers != spec.num_hidden_layers - spec.num_hidden_layers / period) write_layer_types(spec, config);
}

}  // namespace gpuplan
