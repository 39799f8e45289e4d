// DeepSeek MoE (Llama's attention), V2 and V3 (latent attention): the first layers dense, then fine-grained experts
// beside shared ones that are one MLP of their summed width. The router is a bare parameter, no Linear; V3 adds a
// correction to its scores. V3's multi-token-prediction layer is not part of the model that is fine-tuned. Kimi K2 is
// V3 under another name; GLM-4.5 to 4.7 and dots.llm1 have V3's experts and Llama's attention, GLM-4.7-Flash is V3 in
// small. Source of names and defaults: configuration_deepseek.py of deepseek-ai/deepseek-moe-16b-base; transformers
// DeepseekV2Config, DeepseekV3Config, Glm4MoeConfig, Glm4MoeLiteConfig, Dots1Config and their models.
#include "models/families/deepseek.h"

#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

struct DeepSeekDefaults {
  std::int64_t vocab_size, positions, num_shared, num_dense_layers, expert_size;
  std::optional<std::int64_t> num_experts, experts_per_token;  // unset: the config must say it
  std::optional<std::int64_t> head_dim{};                      // before latent attention sets it
};
constexpr DeepSeekDefaults kFirst{102400, 2048, 0, 0, 1407, {}, {}};
constexpr DeepSeekDefaults kSecond{32000, 2048, 2, 0, 1407, 64, {}};
constexpr DeepSeekDefaults kThird{129280, 4096, 1, 3, 2048, 256, 8};
constexpr DeepSeekDefaults kGlm45{151552, 131072, 1, 1, 1408, 128, 8};
constexpr DeepSeekDefaults kGlm47Flash{154880, 202752, 1, 1, 1536, 64, 4, 64};  // 20 heads do not divide its width
constexpr DeepSeekDefaults kDots{152064, 2048, 0, 0, 1408, {}, {}};

constexpr IntRange kSharedRange{0, 64};

void read_common(Fields& config, ModelSpec& spec, const DeepSeekDefaults& d) {
  read_decoder(config, spec,
               {.head_dim = d.head_dim, .vocab_size = d.vocab_size, .max_position_embeddings = d.positions});
  read_experts(
      config, spec, "n_routed_experts", "moe_intermediate_size",
      {.num_experts = d.num_experts, .experts_per_token = d.experts_per_token, .intermediate_size = d.expert_size});
  const std::int64_t num_shared = config.optional_integer("n_shared_experts", kSharedRange).value_or(d.num_shared);
  spec.moe.shared_intermediate_size = num_shared * spec.moe.intermediate_size;
  spec.moe.num_dense_layers =
      config.optional_integer("first_k_dense_replace", {0, kLayerRange.most}).value_or(d.num_dense_layers);
  if (config.optional_integer("moe_layer_freq", kLayerRange).value_or(1) != 1)
    config.report("moe_layer_freq", "only 1, experts in every layer after the dense ones, is modelled");
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
}

void read_first(Fields& config, ModelSpec& spec) { read_common(config, spec, kFirst); }

}  // namespace

void read_latent(Fields& config, ModelSpec& spec) {
  LatentAttention& l = spec.latent;
  l.q_rank = config.optional_integer("q_lora_rank", kWidthRange).value_or(config.has("q_lora_rank") ? 0 : 1536);
  l.kv_rank = config.optional_integer("kv_lora_rank", kWidthRange).value_or(512);
  l.nope_head_dim = config.optional_integer("qk_nope_head_dim", kHeadRange).value_or(128);
  l.rope_head_dim = config.optional_integer("qk_rope_head_dim", kHeadRange).value_or(64);
  l.v_head_dim = config.optional_integer("v_head_dim", kHeadRange).value_or(128);
  spec.num_key_value_heads = spec.num_attention_heads;  // keys and values are expanded to every head
  check_heads(config, spec, l.nope_head_dim + l.rope_head_dim);
}

namespace {

void read_second(Fields& config, ModelSpec& spec) {
  read_common(config, spec, kSecond);
  read_latent(config, spec);
}

void read_third(Fields& config, ModelSpec& spec) {
  read_common(config, spec, kThird);
  read_latent(config, spec);
  spec.moe.has_router_correction = true;
}

void read_glm4_moe(Fields& config, ModelSpec& spec) {
  read_common(config, spec, kGlm45);
  spec.has_o_bias = false;  // attention_bias means q, k and v
  spec.qk_norm = config.optional_flag("use_qk_norm").value_or(false) ? QkNorm::PerHead : QkNorm::None;
  spec.rotary_fraction = read_rotary_fraction(config, "partial_rotary_factor", 0.5);
  spec.moe.has_router_correction = true;
}

void read_glm4_moe_lite(Fields& config, ModelSpec& spec) {
  read_common(config, spec, kGlm47Flash);
  read_latent(config, spec);
  spec.moe.has_router_correction = true;
}

void read_dots(Fields& config, ModelSpec& spec) {
  read_common(config, spec, kDots);
  spec.has_o_bias = false;
  spec.qk_norm = QkNorm::PerHead;
  spec.moe.has_router_correction = true;
}

}  // namespace

void add_latent_attention(Tensors& tensors, const ModelSpec& spec) {
  const LatentAttention& l = spec.latent;
  const std::int64_t hidden = spec.hidden_size, heads = spec.num_attention_heads;
  if (l.q_rank > 0) {
    add_linear(tensors, LinearSlot::QDown, "self_attn.q_a_proj", hidden, l.q_rank, spec.has_qkv_bias);
    add_norm(tensors, "self_attn.q_a_layernorm", l.q_rank);
    add_linear(tensors, LinearSlot::QUp, "self_attn.q_b_proj", l.q_rank, spec.q_width());
  } else {
    add_linear(tensors, LinearSlot::Q, "self_attn.q_proj", hidden, spec.q_width());
  }
  add_linear(tensors, LinearSlot::KvDown, "self_attn.kv_a_proj_with_mqa", hidden, l.kv_rank + l.rope_head_dim,
             spec.has_qkv_bias);
  add_norm(tensors, "self_attn.kv_a_layernorm", l.kv_rank);
  add_linear(tensors, LinearSlot::KvUp, "self_attn.kv_b_proj", l.kv_rank, heads * (l.nope_head_dim + l.v_head_dim));
  add_linear(tensors, LinearSlot::O, "self_attn.o_proj", spec.context_width(), hidden, spec.has_o_bias);
}

void add_bare_router(Tensors& tensors, const ModelSpec& spec, const std::string& module) {
  const std::int64_t hidden = spec.hidden_size, experts = spec.moe.num_experts;
  tensors.push_back({.name = module + ".weight",
                     .shape = {experts, hidden},
                     .role = WeightRole::Stacked,
                     .in = hidden,
                     .out = experts,
                     .slot = LinearSlot::Router});
  if (spec.moe.has_router_correction)
    tensors.push_back({.name = module + ".e_score_correction_bias", .shape = {experts}, .role = WeightRole::Bias});
}

namespace {

ModelWeights list_deepseek(const ModelSpec& spec) {
  Tensors common, sparse;
  if (spec.latent.is_present())
    add_latent_attention(common, spec);
  else
    add_attention(common, spec);
  add_norm(common, "input_layernorm", spec.hidden_size);
  add_norm(common, "post_attention_layernorm", spec.hidden_size);
  add_bare_router(sparse, spec, "mlp.gate");
  add_experts(sparse, spec, "mlp.experts");
  add_shared_expert(sparse, spec, "mlp.shared_experts");
  return moe_weights(spec, std::move(common), std::move(sparse));
}

}  // namespace

constinit const Family kDeepSeek{.name = "deepseek",
                                 .model_type = "deepseek",
                                 .architecture = "DeepseekForCausalLM",
                                 .read = read_first,
                                 .list = list_deepseek};
constinit const Family kDeepSeekV2{.name = "deepseek_v2",
                                   .model_type = "deepseek_v2",
                                   .architecture = "DeepseekV2ForCausalLM",
                                   .read = read_second,
                                   .list = list_deepseek};
constinit const Family kDeepSeekV3{.name = "deepseek_v3",
                                   .model_type = "deepseek_v3",
                                   .architecture = "DeepseekV3ForCausalLM",
                                   .read = read_third,
                                   .list = list_deepseek};
constinit const Family kKimiK2{.name = "kimi_k2",
                               .model_type = "kimi_k2",
                               .architecture = "DeepseekV3ForCausalLM",
                               .read = read_third,
                               .list = list_deepseek};
constinit const Family kGlm4Moe{.name = "glm4_moe",
                                .model_type = "glm4_moe",
                                .architecture = "Glm4MoeForCausalLM",
                                .read = read_glm4_moe,
                                .list = list_deepseek};
constinit const Family kGlm4MoeLite{.name = "glm4_moe_lite",
                                    .model_type = "glm4_moe_lite",
                                    .architecture = "Glm4MoeLiteForCausalLM",
                                    .read = read_glm4_moe_lite,
                                    .list = list_deepseek};
constinit const Family kDots1{.name = "dots1",
                              .model_type = "dots1",
                              .architecture = "Dots1ForCausalLM",
                              .read = read_dots,
                              .list = list_deepseek};

}  // namespace gpuplan
