// GLM-4 and GLM-Edge in the form of transformers (glm: pre-norm; glm4, the releases of April 2025: norms before and
// after each branch). Gate and up projection are one linear, q, k and v have biases where the config says so, half of
// each head is rotated. Source of names and defaults: transformers GlmConfig, Glm4Config, modeling_glm.py,
// modeling_glm4.py. Their mixtures of experts are DeepSeek's next of kin (deepseek.cpp).
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_glm(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 32,
                .num_key_value_heads = 2,
                .head_dim = 128,
                .vocab_size = 151552,
                .max_position_embeddings = 131072});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = config.optional_flag("attention_bias").value_or(false);
  spec.rotary_fraction = read_rotary_fraction(config, "partial_rotary_factor", 0.5);
  spec.has_fused_gate_up = true;
}

void read_glm4(Fields& config, ModelSpec& spec) {
  read_glm(config, spec);
  spec.norm_placement = NormPlacement::Sandwich;
}

ModelWeights list_glm(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_linear(layer, LinearSlot::GateUp, "mlp.gate_up_proj", spec.hidden_size, 2 * spec.intermediate_size);
  add_linear(layer, LinearSlot::Down, "mlp.down_proj", spec.intermediate_size, spec.hidden_size);
  add_norm(layer, "input_layernorm", spec.hidden_size);
  add_norm(layer, "post_attention_layernorm", spec.hidden_size);
  if (spec.norm_placement == NormPlacement::Sandwich) {
    add_norm(layer, "post_self_attn_layernorm", spec.hidden_size);
    add_norm(layer, "post_mlp_layernorm", spec.hidden_size);
  }
  return decoder_weights(spec, std::move(layer));
}

}  // namespace

constinit const Family kGlm{
    .name = "glm", .model_type = "glm", .architecture = "GlmForCausalLM", .read = read_glm, .list = list_glm};
constinit const Family kGlm4{
    .name = "glm4", .model_type = "glm4", .architecture = "Glm4ForCausalLM", .read = read_glm4, .list = list_glm};

}  // namespace gpuplan
