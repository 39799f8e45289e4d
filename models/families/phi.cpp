// Phi-1, 1.5 and 2: attention and MLP side by side on one LayerNorm, biases everywhere, the head's included; a share of
// each head is rotated. Source of names and defaults: transformers PhiConfig, modeling_phi.py.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .vocab_size = 51200});
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.residual = ResidualKind::ParallelOneNorm;
  spec.activation = read_activation(config, "hidden_act", "gelu_new");
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = spec.has_head_bias = true;
  spec.rotary_fraction = read_rotary_fraction(config, "partial_rotary_factor", 0.5);
  spec.residual_dropout = read_dropout(config, "resid_pdrop", 0);
  if (config.optional_flag("qk_layernorm").value_or(false))
    config.report("qk_layernorm", "norms on q and k are not modelled here");
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  config["hidden_act"] = hf_activation(spec.activation);
  config["partial_rotary_factor"] = spec.rotary_fraction;
  config["resid_pdrop"] = spec.residual_dropout;
}

ModelWeights list(const ModelSpec& spec) {
  Tensors layer;
  add_linear(layer, LinearSlot::Q, "self_attn.q_proj", spec.hidden_size, spec.q_width(), true);
  add_linear(layer, LinearSlot::K, "self_attn.k_proj", spec.hidden_size, spec.kv_width(), true);
  add_linear(layer, LinearSlot::V, "self_attn.v_proj", spec.hidden_size, spec.kv_width(), true);
  add_linear(layer, LinearSlot::O, "self_attn.dense", spec.q_width(), spec.hidden_size, true);
  add_linear(layer, LinearSlot::Up, "mlp.fc1", spec.hidden_size, spec.intermediate_size, true);
  add_linear(layer, LinearSlot::Down, "mlp.fc2", spec.intermediate_size, spec.hidden_size, true);
  add_norm_of(layer, spec, "input_layernorm");
  ModelWeights weights;
  add_layers(weights, spec, "model.layers.{}.", std::move(layer));
  add_embedding(weights, spec, "model.embed_tokens");
  add_norm_of(weights.after, spec, "model.final_layernorm");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kPhi{
    .name = "phi", .model_type = "phi", .architecture = "PhiForCausalLM", .read = read, .write = write, .list = list};

}  // namespace gpuplan
