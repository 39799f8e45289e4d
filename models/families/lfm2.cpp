// LFM2 and LFM2.5: gated short convolutions and, in some layers, attention with norms on queries and keys; then a gated
// MLP, whose width the config states before an adjustment, or experts behind the first layers (8B-A1B, 24B-A2B). Source
// of names and defaults: transformers Lfm2Config, Lfm2MoeConfig, modeling_lfm2.py, modeling_lfm2_moe.py.
#include <array>

#include <fmt/format.h>

#include "models/families/experts.h"
#include "models/families/mixers.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::array kLfm2Mixers{MixerName{"conv", Mixer::ShortConvolution},
                                 MixerName{"full_attention", Mixer::Attention}};

/// Two thirds of what is stated, times a factor, rounded up to a multiple.
std::int64_t read_adjusted_width(Fields& config) {
  std::int64_t width = read_either(config, "block_ff_dim", "intermediate_size", kFfnRange, 12288);
  if (!config.optional_flag("block_auto_adjust_ff_dim").value_or(true)) return width;
  const std::int64_t multiple = config.optional_integer("block_multiple_of", {1, 1 << 16}).value_or(256);
  const double factor = config.optional_number("block_ffn_dim_multiplier", {0.01, 100}).value_or(1);
  width = std::int64_t(factor * double(2 * width / 3));
  return std::min((width + multiple - 1) / multiple * multiple, kFfnRange.most);
}

void read_attending_layers(Fields& config, ModelSpec& spec) {
  const nlohmann::json* attending = config.find("full_attn_idxs");
  if (!attending || config.find("layer_types")) return read_mixers(config, spec, "layer_types", kLfm2Mixers);
  spec.mixers.assign(std::size_t(spec.num_hidden_layers), Mixer::ShortConvolution);
  for (const nlohmann::json& layer : *attending) {
    if (!layer.is_number_integer() || layer < 0 || layer >= spec.num_hidden_layers)
      return config.report("full_attn_idxs", fmt::format("{} is no layer", layer.dump()));
    spec.mixers[layer.get<std::size_t>()] = Mixer::Attention;
  }
}

void read_lfm2_of_width(Fields& config, ModelSpec& spec, std::int64_t intermediate_size) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(2560);
  spec.num_hidden_layers = config.optional_integer("num_hidden_layers", kLayerRange).value_or(32);
  spec.num_attention_heads = config.optional_integer("num_attention_heads", kHeadRange).value_or(32);
  spec.num_key_value_heads = config.optional_integer("num_key_value_heads", kHeadRange).value_or(8);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(65536);
  spec.max_position_embeddings = config.optional_integer("max_position_embeddings", kPositionRange).value_or(128000);
  spec.intermediate_size = intermediate_size;
  const bool is_tied = config.optional_flag("tie_word_embeddings").value_or(true);
  spec.tie_word_embeddings = config.optional_flag("tie_embedding").value_or(is_tied);
  spec.qk_norm = QkNorm::PerHead;
  spec.rope = read_rope(config);
  check_heads(config, spec, config.optional_integer("head_dim", kHeadRange));
  read_attending_layers(config, spec);
  if (!spec.is_hybrid()) return;
  spec.short_convolution = {config.optional_integer("conv_L_cache", kConvRange).value_or(3),
                            config.optional_flag("conv_bias").value_or(false)};
}

void read_lfm2(Fields& config, ModelSpec& spec) { read_lfm2_of_width(config, spec, read_adjusted_width(config)); }

void read_lfm2_moe(Fields& config, ModelSpec& spec) {
  read_lfm2_of_width(config, spec, config.optional_integer("intermediate_size", kFfnRange).value_or(7168));
  read_experts(config, spec, "num_experts", "moe_intermediate_size",
               {.num_experts = 32, .experts_per_token = 4, .intermediate_size = 1792});
  spec.moe.num_dense_layers = config.optional_integer("num_dense_layers", {0, kLayerRange.most}).value_or(2);
  spec.moe.has_router_correction = config.optional_flag("use_expert_bias").value_or(true);
}

Tensors lfm2_layer(const ModelSpec& spec, Mixer mixer, bool is_moe) {
  const std::int64_t hidden = spec.hidden_size, width = spec.intermediate_size;
  Tensors layer;
  if (mixer == Mixer::Attention) {
    add_linear(layer, LinearSlot::Q, "self_attn.q_proj", hidden, spec.q_width());
    add_linear(layer, LinearSlot::K, "self_attn.k_proj", hidden, spec.kv_width());
    add_linear(layer, LinearSlot::V, "self_attn.v_proj", hidden, spec.kv_width());
    add_linear(layer, LinearSlot::O, "self_attn.out_proj", spec.q_width(), hidden);
    add_norm(layer, "self_attn.q_layernorm", spec.head_dim);
    add_norm(layer, "self_attn.k_layernorm", spec.head_dim);
  } else {
    add_short_convolution(layer, spec, "conv");
  }
  if (is_moe) {
    add_sparse_mlp(layer, spec, "feed_forward", {.gate = "w1", .up = "w3", .down = "w2"});
    if (spec.moe.has_router_correction)
      layer.push_back({.name = "feed_forward.expert_bias", .shape = {spec.moe.num_experts}, .role = WeightRole::Bias});
  } else {
    add_linear(layer, LinearSlot::Gate, "feed_forward.w1", hidden, width);
    add_linear(layer, LinearSlot::Up, "feed_forward.w3", hidden, width);
    add_linear(layer, LinearSlot::Down, "feed_forward.w2", width, hidden);
  }
  add_norm(layer, "operator_norm", hidden);
  add_norm(layer, "ffn_norm", hidden);
  return layer;
}

ModelWeights list_lfm2(const ModelSpec& spec) {
  ModelWeights weights;
  add_mixed_layers(weights, spec, "model.layers.{}.",
                   [&](Mixer mixer, bool is_moe) { return lfm2_layer(spec, mixer, is_moe); });
  add_embedding(weights, spec, "model.embed_tokens");
  add_norm_of(weights.after, spec, "model.embedding_norm");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kLfm2{
    .name = "lfm2", .model_type = "lfm2", .architecture = "Lfm2ForCausalLM", .read = read_lfm2, .list = list_lfm2};
constinit const Family kLfm2Moe{.name = "lfm2_moe",
                                .model_type = "lfm2_moe",
                                .architecture = "Lfm2MoeForCausalLM",
                                .read = read_lfm2_moe,
                                .list = list_lfm2};

}  // namespace gpuplan
