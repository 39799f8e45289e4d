// Nemotron-H, Nemotron Nano 2 and Nemotron 3: a layer is one norm and one of four: Mamba-2, attention without
// positions, an MLP with a squared ReLU, or a mixture of such MLPs with a shared one. Layers that predict further
// tokens (mtp.*) are not loaded by transformers. Source of names and defaults: transformers NemotronHConfig,
// modeling_nemotron_h.py; tensors are under "backbone" in the checkpoints.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "models/families/experts.h"
#include "models/families/mixers.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

struct LetterOfLayer {
  char letter;
  const char *name, *other_name;
  Mixer mixer;
};

// hybrid_override_pattern, and the list that newer configs have.
constexpr std::array kNemotronLayers{LetterOfLayer{'M', "mamba", "linear_attention", Mixer::Mamba2},
                                     LetterOfLayer{'*', "attention", "full_attention", Mixer::Attention},
                                     LetterOfLayer{'-', "mlp", "mlp", Mixer::None},
                                     LetterOfLayer{'E', "moe", "moe", Mixer::None}};

/// One letter per layer; empty after a report.
std::string read_pattern(Fields& config) {
  if (const auto pattern = config.optional_text("hybrid_override_pattern")) return *pattern;
  const char* key = config.find("layer_types") ? "layer_types" : "layers_block_type";
  const nlohmann::json* list = config.find(key);
  if (!list) return "ME*-";  // of a config that says nothing
  std::string pattern;
  if (!list->is_array()) return config.report(key, "must list the layers"), pattern;
  for (const nlohmann::json& item : *list) {
    const auto row = std::ranges::find_if(
        kNemotronLayers, [&](const LetterOfLayer& layer) { return item == layer.name || item == layer.other_name; });
    if (row == kNemotronLayers.end()) return config.report(key, fmt::format("{} is not modelled", item.dump())), "";
    pattern += row->letter;
  }
  return pattern;
}

void read_nemotron_layers(Fields& config, ModelSpec& spec) {
  const std::string pattern = read_pattern(config);
  const auto unknown = std::ranges::find_if(pattern, [](char letter) {
    return std::ranges::find(kNemotronLayers, letter, &LetterOfLayer::letter) == kNemotronLayers.end();
  });
  if (unknown != pattern.end())
    return config.report("hybrid_override_pattern", fmt::format("'{}' is no kind of layer", *unknown));
  if (pattern.empty() || std::ssize(pattern) > kLayerRange.most)
    return config.report("hybrid_override_pattern", fmt::format("must name 1 to {} layers", kLayerRange.most));
  if (pattern.find('-') != std::string::npos && pattern.find('E') != std::string::npos)
    return config.report("hybrid_override_pattern", "MLPs beside mixtures of experts are not modelled");
  spec.num_hidden_layers = std::ssize(pattern);
  for (const char letter : pattern)
    spec.mixers.push_back(std::ranges::find(kNemotronLayers, letter, &LetterOfLayer::letter)->mixer);
  if (!spec.has_lone_mlps()) config.report("hybrid_override_pattern", "layers without any MLP are not modelled");
  if (pattern.find('E') == std::string::npos) return;
  read_experts(config, spec, "n_routed_experts", "moe_intermediate_size",
               {.num_experts = 8, .experts_per_token = 2, .intermediate_size = 7688});
  const std::int64_t shared = config.optional_integer("moe_shared_expert_intermediate_size", kFfnRange).value_or(7688);
  if (config.optional_integer("n_shared_experts", {0, 1}).value_or(1) == 1) spec.moe.shared_intermediate_size = shared;
  spec.moe.has_router_correction = true;
  spec.moe.latent_size = config.optional_integer("moe_latent_size", kWidthRange).value_or(0);
}

void read_nemotron_mamba(Fields& config, ModelSpec& spec) {
  Mamba2Spec& m = spec.mamba2;
  m.num_heads = config.optional_integer("mamba_num_heads", kHeadRange).value_or(128);
  m.head_dim = config.optional_integer("mamba_head_dim", kHeadRange).value_or(64);
  m.num_groups = config.optional_integer("n_groups", kHeadRange).value_or(8);
  m.state_size = config.optional_integer("ssm_state_size", kStateRange).value_or(128);
  m.conv_kernel = config.optional_integer("conv_kernel", kConvRange).value_or(4);
  m.chunk = config.optional_integer("chunk_size", kChunkRange).value_or(128);
  m.has_conv_bias = config.optional_flag("use_conv_bias").value_or(true);
  m.has_proj_bias = config.optional_flag("mamba_proj_bias").value_or(false);
  check_mamba2(config, spec, "mamba_num_heads");
}

void read_nemotron_h(Fields& config, ModelSpec& spec) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(4096);
  spec.num_attention_heads = config.optional_integer("num_attention_heads", kHeadRange).value_or(32);
  spec.num_key_value_heads = config.optional_integer("num_key_value_heads", kHeadRange).value_or(8);
  spec.intermediate_size = config.optional_integer("intermediate_size", kFfnRange).value_or(21504);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(131072);
  spec.max_position_embeddings = config.optional_integer("max_position_embeddings", kPositionRange).value_or(4096);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(false);
  spec.has_mlp_bias = config.optional_flag("mlp_bias").value_or(false);
  spec.activation = read_activation(config, "mlp_hidden_act", "relu2");
  spec.mlp = MlpKind::Plain;
  spec.position = PositionKind::None;
  check_heads(config, spec, config.optional_integer("head_dim", kHeadRange).value_or(128));
  read_nemotron_layers(config, spec);
  read_nemotron_mamba(config, spec);
}

void add_plain_experts(Tensors& tensors, const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, width = spec.moe.intermediate_size,
                     shared = spec.moe.shared_intermediate_size, latent = spec.moe.latent_size,
                     inner = latent > 0 ? latent : hidden;
  add_linear(tensors, LinearSlot::Router, "mixer.gate", hidden, spec.moe.num_experts);
  tensors.push_back(
      {.name = "mixer.gate.e_score_correction_bias", .shape = {spec.moe.num_experts}, .role = WeightRole::Bias});
  const auto first = std::ssize(tensors);
  add_linear(tensors, LinearSlot::ExpertUp, "mixer.experts.{}.up_proj", inner, width);
  add_linear(tensors, LinearSlot::ExpertDown, "mixer.experts.{}.down_proj", width, inner);
  std::for_each(tensors.begin() + first, tensors.end(), [&](WeightTensor& tensor) {
    tensor.copies = spec.moe.num_experts;
    tensor.is_routed = true;
  });
  if (latent > 0) {
    add_linear(tensors, LinearSlot::LatentIn, "mixer.fc1_latent_proj", hidden, latent);
    add_linear(tensors, LinearSlot::LatentOut, "mixer.fc2_latent_proj", latent, hidden);
  }
  if (shared == 0) return;
  add_linear(tensors, LinearSlot::SharedUp, "mixer.shared_experts.up_proj", hidden, shared);
  add_linear(tensors, LinearSlot::SharedDown, "mixer.shared_experts.down_proj", shared, hidden);
}

Tensors nemotron_layer(const ModelSpec& spec, Mixer mixer, bool is_moe) {
  const std::int64_t hidden = spec.hidden_size, width = spec.intermediate_size;
  Tensors layer;
  add_norm(layer, "norm", hidden);
  if (mixer == Mixer::Mamba2) {
    add_mamba2(layer, spec, "mixer");
  } else if (mixer == Mixer::Attention) {
    add_linear(layer, LinearSlot::Q, "mixer.q_proj", hidden, spec.q_width());
    add_linear(layer, LinearSlot::K, "mixer.k_proj", hidden, spec.kv_width());
    add_linear(layer, LinearSlot::V, "mixer.v_proj", hidden, spec.kv_width());
    add_linear(layer, LinearSlot::O, "mixer.o_proj", spec.q_width(), hidden);
  } else if (is_moe) {
    add_plain_experts(layer, spec);
  } else {
    add_linear(layer, LinearSlot::Up, "mixer.up_proj", hidden, width, spec.has_mlp_bias);
    add_linear(layer, LinearSlot::Down, "mixer.down_proj", width, hidden, spec.has_mlp_bias);
  }
  return layer;
}

ModelWeights list_nemotron_h(const ModelSpec& spec) {
  ModelWeights weights;
  add_mixed_layers(weights, spec, "backbone.layers.{}.",
                   [&](Mixer mixer, bool is_moe) { return nemotron_layer(spec, mixer, is_moe); });
  add_embedding(weights, spec, "backbone.embeddings");
  add_norm_of(weights.after, spec, "backbone.norm_f");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kNemotronH{.name = "nemotron_h",
                                  .model_type = "nemotron_h",
                                  .architecture = "NemotronHForCausalLM",
                                  .read = read_nemotron_h,
                                  .list = list_nemotron_h};

}  // namespace gpuplan
