// gpt-oss: all experts of a layer are one parameter each for gate with up and for down, with biases; a learned sink per
// head joins the softmax, every other layer attends within a window. The library has no sdpa for sinks and flash only
// on Hopper with a kernel of its own, so the scores exist. Named as the 16-bit form; the published checkpoint packs its
// experts in MXFP4. Source of names and defaults: transformers GptOssConfig, modeling_gpt_oss.py.
#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kOssWindow = 128;
constexpr std::int64_t kWindowPeriod = 2;

std::int64_t default_sliding_layers(const ModelSpec& spec) {
  return spec.num_hidden_layers - spec.num_hidden_layers / kWindowPeriod;
}

void read_gpt_oss(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 64,
                .num_key_value_heads = 8,
                .head_dim = 64,
                .vocab_size = 201088,
                .max_position_embeddings = 131072});
  read_experts(config, spec, "num_local_experts", "intermediate_size",
               {.num_experts = 128, .experts_per_token = 4, .intermediate_size = {}});
  spec.moe.has_router_bias = spec.moe.has_expert_bias = true;
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(true);
  spec.has_sinks = spec.materialises_scores = true;
  const auto window = config.optional_integer("sliding_window", kPositionRange);
  spec.sliding_window = window.value_or(config.has("sliding_window") ? 0 : kOssWindow);
  read_sliding_layers(config, spec, default_sliding_layers(spec));
}

void add_biased_experts(Tensors& tensors, LinearSlot slot, const std::string& name, std::int64_t experts,
                        std::int64_t in, std::int64_t out) {
  add_stacked_experts(tensors, slot, name, experts, in, out);
  tensors.push_back({.name = name + "_bias", .shape = {experts, out}, .role = WeightRole::Bias, .is_routed = true});
}

ModelWeights list_gpt_oss(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, experts = spec.moe.num_experts, width = spec.moe.intermediate_size;
  Tensors common, sparse;
  add_attention(common, spec);
  common.push_back({.name = "self_attn.sinks", .shape = {spec.num_attention_heads}, .role = WeightRole::Bias});
  add_norm(common, "input_layernorm", hidden);
  add_norm(common, "post_attention_layernorm", hidden);
  sparse.push_back({.name = "mlp.router.weight",
                    .shape = {experts, hidden},
                    .role = WeightRole::Stacked,
                    .in = hidden,
                    .out = experts,
                    .slot = LinearSlot::Router});
  sparse.push_back({.name = "mlp.router.bias", .shape = {experts}, .role = WeightRole::Bias});
  add_biased_experts(sparse, LinearSlot::ExpertGateUp, "mlp.experts.gate_up_proj", experts, hidden, 2 * width);
  add_biased_experts(sparse, LinearSlot::ExpertDown, "mlp.experts.down_proj", experts, width, hidden);
  return moe_weights(spec, std::move(common), std::move(sparse));
}

}  // namespace

constinit const Family kGptOss{.name = "gpt_oss",
                               .model_type = "gpt_oss",
                               .architecture = "GptOssForCausalLM",
                               .read = read_gpt_oss,
                               .list = list_gpt_oss};

}  // namespace gpuplan
