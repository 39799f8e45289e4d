// Phi, Phi-3 and Phi-3.5-MoE.
#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

// Phi-1, 1.5 and 2: attention and MLP side by side on one LayerNorm, biases everywhere, the head's included; a share of
// each head is rotated. Source of names and defaults: transformers PhiConfig, modeling_phi.py.

void read_phi(Fields& config, ModelSpec& spec) {
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

ModelWeights list_phi(const ModelSpec& spec) {
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

// Phi-3, Phi-4 and Phi-4-mini: Llama with q, k, v in one linear and gate, up in one linear.
// Source of defaults: transformers Phi3Config.

void read_phi3(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.max_position_embeddings = 4096});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.residual_dropout = read_dropout(config, "resid_pdrop", 0);
  spec.has_fused_qkv = spec.has_fused_gate_up = true;
  spec.sliding_window = config.optional_integer("sliding_window", kPositionRange).value_or(0);
  read_sliding_layers(config, spec, spec.num_hidden_layers);
}

ModelWeights list_phi3(const ModelSpec& spec) {
  Tensors layer;
  add_linear(layer, LinearSlot::O, "self_attn.o_proj", spec.q_width(), spec.hidden_size);
  add_linear(layer, LinearSlot::Qkv, "self_attn.qkv_proj", spec.hidden_size, spec.q_width() + 2 * spec.kv_width());
  add_linear(layer, LinearSlot::GateUp, "mlp.gate_up_proj", spec.hidden_size, 2 * spec.intermediate_size);
  add_linear(layer, LinearSlot::Down, "mlp.down_proj", spec.intermediate_size, spec.hidden_size);
  add_norm(layer, "input_layernorm", spec.hidden_size);
  add_norm(layer, "post_attention_layernorm", spec.hidden_size);
  return decoder_weights(spec, std::move(layer));
}

// Phi-3.5-MoE, Phi-mini-MoE and Phi-tiny-MoE: Mixtral's layers and names with LayerNorms and biases of attention and
// head. Source of names and defaults: transformers PhimoeConfig, modeling_phimoe.py; the two small ones have code of
// their own with the same tensors.

void read_phimoe(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .num_key_value_heads = 8, .vocab_size = 32064});
  read_experts(config, spec, "num_local_experts", "intermediate_size",
               {.num_experts = 16, .experts_per_token = 2, .intermediate_size = {}});
  spec.norm = NormKind::LayerNorm;
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_head_bias = config.optional_flag("lm_head_bias").value_or(false);
  spec.sliding_window = config.optional_integer("sliding_window", kPositionRange).value_or(0);
  read_sliding_layers(config, spec, spec.num_hidden_layers);
}

ModelWeights list_phimoe(const ModelSpec& spec) {
  Tensors common, sparse;
  add_attention(common, spec);
  add_norm_of(common, spec, "input_layernorm");
  add_norm_of(common, spec, "post_attention_layernorm");
  add_sparse_mlp(sparse, spec, "block_sparse_moe", {.gate = "w1", .up = "w3", .down = "w2"});
  return moe_weights(spec, std::move(common), std::move(sparse));
}

}  // namespace

constinit const Family kPhiMoe{.name = "phimoe",
                               .model_type = "phimoe",
                               .architecture = "PhimoeForCausalLM",
                               .other_architecture = "PhiMoEForCausalLM",
                               .read = read_phimoe,
                               .list = list_phimoe};
constinit const Family kPhi{
    .name = "phi", .model_type = "phi", .architecture = "PhiForCausalLM", .read = read_phi, .list = list_phi};
constinit const Family kPhi3{
    .name = "phi3", .model_type = "phi3", .architecture = "Phi3ForCausalLM", .read = read_phi3, .list = list_phi3};

}  // namespace gpuplan
