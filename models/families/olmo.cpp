// OLMo: Llama's linears with LayerNorms that have no weights. OLMo 2: RMSNorms after attention and MLP in place of
// before, and on whole q and k. OLMo 3: the same, three of four layers within a window. EXAONE 4: OLMo 2 with norms per
// head on q and k. OLMoE: pre-norm, norms on whole q and k, every MLP a mixture of experts. Source of
// names and defaults: transformers OlmoConfig, Olmo2Config, Olmo3Config, Exaone4Config, OlmoeConfig and their models.
#include <algorithm>
#include <string>

#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_common(Fields& config, ModelSpec& spec, std::int64_t default_positions) {
  read_decoder(config, spec,
               {.num_attention_heads = {}, .vocab_size = 50304, .max_position_embeddings = default_positions});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
}

void read_olmo(Fields& config, ModelSpec& spec) {
  read_common(config, spec, 2048);
  spec.norm = NormKind::LayerNorm;
}

void read_olmo2(Fields& config, ModelSpec& spec) {
  read_common(config, spec, 2048);
  spec.norm_placement = NormPlacement::PostBranch;
  spec.qk_norm = QkNorm::Full;
}

constexpr std::int64_t kPostNormWindow = 4096, kPostNormPeriod = 4;  // of OLMo 3 and EXAONE 4

/// The last one of every `period` layers attends fully; a config with layer_types says it itself.
std::int64_t windowed_layers(const ModelSpec& spec, std::int64_t period) {
  return spec.num_hidden_layers - spec.num_hidden_layers / period;
}

void read_olmo3(Fields& config, ModelSpec& spec) {
  read_olmo2(config, spec);
  spec.sliding_window = config.optional_integer("sliding_window", kPositionRange).value_or(kPostNormWindow);
  read_sliding_layers(config, spec, windowed_layers(spec, kPostNormPeriod));
}

/// A window unless the config says null; its pattern is a number or a word of L and G.
void read_exaone4(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_attention_heads = 32, .num_key_value_heads = 32, .vocab_size = 102400, .max_position_embeddings = 2048});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.norm_placement = NormPlacement::PostBranch;
  spec.qk_norm = QkNorm::PerHead;
  const auto stated = config.optional_integer("sliding_window", kPositionRange);
  spec.sliding_window = stated.value_or(config.has("sliding_window") ? 0 : kPostNormWindow);
  std::int64_t period = kPostNormPeriod;
  if (const nlohmann::json* pattern = config.find("sliding_window_pattern"); pattern && pattern->is_string())
    period = std::max<std::int64_t>(1, std::ssize(config.text("sliding_window_pattern")));
  else
    period = config.optional_integer("sliding_window_pattern", kLayerRange).value_or(period);
  read_sliding_layers(config, spec, windowed_layers(spec, period));
}

void read_olmoe(Fields& config, ModelSpec& spec) {
  read_common(config, spec, 4096);
  read_experts(config, spec, "num_experts", "intermediate_size",
               {.num_experts = 64, .experts_per_token = 8, .intermediate_size = {}});
  spec.qk_norm = QkNorm::Full;
}

ModelWeights list_olmo(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_gated_mlp(layer, spec);
  ModelWeights weights;
  add_layers(weights, spec, "model.layers.{}.", std::move(layer));
  add_embedding(weights, spec, "model.embed_tokens");
  add_head(weights, spec);
  return weights;
}

ModelWeights list_olmo2(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_gated_mlp(layer, spec);
  add_norm(layer, "post_attention_layernorm", spec.hidden_size);
  add_norm(layer, "post_feedforward_layernorm", spec.hidden_size);
  return decoder_weights(spec, std::move(layer));
}

ModelWeights list_olmoe(const ModelSpec& spec) { return pre_norm_moe_weights(spec); }

}  // namespace

constinit const Family kOlmo{
    .name = "olmo", .model_type = "olmo", .architecture = "OlmoForCausalLM", .read = read_olmo, .list = list_olmo};
constinit const Family kOlmo2{
    .name = "olmo2", .model_type = "olmo2", .architecture = "Olmo2ForCausalLM", .read = read_olmo2, .list = list_olmo2};
constinit const Family kOlmo3{
    .name = "olmo3", .model_type = "olmo3", .architecture = "Olmo3ForCausalLM", .read = read_olmo3, .list = list_olmo2};
constinit const Family kExaone4{.name = "exaone4",
                                .model_type = "exaone4",
                                .architecture = "Exaone4ForCausalLM",
                                .read = read_exaone4,
                                .list = list_olmo2};
constinit const Family kOlmoe{
    .name = "olmoe", .model_type = "olmoe", .architecture = "OlmoeForCausalLM", .read = read_olmoe, .list = list_olmoe};

}  // namespace gpuplan
