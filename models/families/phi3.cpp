// Phi-3, Phi-4 and Phi-4-mini: Llama with q, k, v in one linear and gate, up in one linear.
// Source of defaults: transformers Phi3Config.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.max_position_embeddings = 4096});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.residual_dropout = read_dropout(config, "resid_pdrop", 0);
  spec.has_fused_qkv = spec.has_fused_gate_up = true;
  spec.sliding_window = config.optional_integer("sliding_window", kPositionRange).value_or(0);
  read_sliding_layers(config, spec, spec.num_hidden_layers);
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  config["hidden_act"] = hf_activation(spec.activation);
  config["resid_pdrop"] = spec.residual_dropout;
  if (spec.sliding_window > 0) config["sliding_window"] = spec.sliding_window;
  if (spec.sliding_window > 0 && spec.sliding_layers != spec.num_hidden_layers) write_layer_types(spec, config);
}

ModelWeights list(const ModelSpec& spec) {
  Tensors layer;
  add_linear(layer, LinearSlot::O, "self_attn.o_proj", spec.q_width(), spec.hidden_size);
  add_linear(layer, LinearSlot::Qkv, "self_attn.qkv_proj", spec.hidden_size, spec.q_width() + 2 * spec.kv_width());
  add_linear(layer, LinearSlot::GateUp, "mlp.gate_up_proj", spec.hidden_size, 2 * spec.intermediate_size);
  add_linear(layer, LinearSlot::Down, "mlp.down_proj", spec.intermediate_size, spec.hidden_size);
  add_norm(layer, "input_layernorm", spec.hidden_size);
  add_norm(layer, "post_attention_layernorm", spec.hidden_size);
  return decoder_weights(spec, std::move(layer));
}

}  // namespace

constinit const Family kPhi3{.name = "phi3",
                             .model_type = "phi3",
                             .architecture = "Phi3ForCausalLM",
                             .read = read,
                             .write = write,
                             .list = list};

}  // namespace gpuplan
