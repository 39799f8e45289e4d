// Llama 3.2 Vision: a tower whose last blocks are gated, over the four tiles of every image together; outputs of five
// blocks and of the last one, side by side, go through one linear. They are no tokens: every fifth layer of the
// language model attends to them instead of to the sequence. Source of names, shapes and defaults: transformers 4.57,
// configuration_mllama.py, modeling_mllama.py, image_processing_mllama.py (every image is padded to max_num_tiles).
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "models/families/mixers.h"
#include "models/families/vision.h"

namespace gpuplan {
namespace {

// The language model: Llama's layers, of which some have attention to the images in place of their own.

void read_mllama_text(Fields& config, ModelSpec& spec) {
  kLlama.read(config, spec);
  std::vector<std::int64_t> crossed{3, 8, 13, 18, 23, 28, 33, 38};
  config.optional("cross_attention_layers", crossed);
  if (config.has_problems()) return;
  spec.mixers.assign(std::size_t(spec.num_hidden_layers), Mixer::Attention);
  for (const std::int64_t layer : crossed) {
    if (layer < 0 || layer >= spec.num_hidden_layers)
      return config.report("cross_attention_layers", fmt::format("{} is no layer", layer));
    spec.mixers[std::size_t(layer)] = Mixer::ImageAttention;
  }
}

/// A learned number that a branch is multiplied by the tanh of.
void add_gate(Tensors& tensors, const std::string& name) {
  tensors.push_back({.name = name, .shape = {1}, .role = WeightRole::Norm});
}

Tensors mllama_layer(const ModelSpec& spec, Mixer mixer) {
  const std::int64_t hidden = spec.hidden_size;
  Tensors layer;
  if (attends_to_images(mixer)) {
    add_linear(layer, LinearSlot::CrossQ, "cross_attn.q_proj", hidden, spec.q_width());
    add_linear(layer, LinearSlot::CrossK, "cross_attn.k_proj", hidden, spec.kv_width());
    add_linear(layer, LinearSlot::CrossV, "cross_attn.v_proj", hidden, spec.kv_width());
    add_linear(layer, LinearSlot::CrossO, "cross_attn.o_proj", spec.q_width(), hidden);
    add_norm(layer, "cross_attn.q_norm", spec.head_dim);
    add_norm(layer, "cross_attn.k_norm", spec.head_dim);
    add_gate(layer, "cross_attn_attn_gate");
    add_gate(layer, "cross_attn_mlp_gate");
  } else {
    add_attention(layer, spec);
  }
  add_gated_mlp(layer, spec);
  add_norm(layer, "input_layernorm", hidden);
  add_norm(layer, "post_attention_layernorm", hidden);
  return layer;
}

constexpr std::int64_t kImageRows = 8;  // of the embedding, beyond the vocabulary of the head

ModelWeights list_mllama_text(const ModelSpec& spec) {
  ModelWeights weights;
  add_mixed_layers(weights, spec, "model.layers.{}.", [&](Mixer mixer, bool) { return mllama_layer(spec, mixer); });
  add_embedding(weights, spec, "model.embed_tokens");
  weights.before.front().shape.front() += kImageRows;
  add_norm_of(weights.after, spec, "model.norm");
  add_head(weights, spec);
  return weights;
}

constexpr Family kMllamaText{.name = "mllama_text",
                             .model_type = "mllama_text_model",
                             .architecture = "MllamaForCausalLM",
                             .read = read_mllama_text,
                             .list = list_mllama_text};

void read_mllama(Fields&, Fields& vision, VisionSpec& v) {
  v.hidden_size = vision.optional_integer("hidden_size", kWidthRange).value_or(1280);
  v.num_layers = vision.optional_integer("num_hidden_layers", kLayerRange).value_or(32);
  v.num_global_layers = vision.optional_integer("num_global_layers", kLayerRange).value_or(8);
  v.num_layers += v.num_global_layers;
  v.num_heads = vision.optional_integer("attention_heads", kHeadRange).value_or(16);
  v.intermediate_size = vision.optional_integer("intermediate_size", kFfnRange).value_or(5120);
  v.image_size = vision.optional_integer("image_size", {1, 1 << 16}).value_or(448);
  v.patch_size = vision.optional_integer("patch_size", kPatchRange).value_or(14);
  v.tiles_together = vision.optional_integer("max_num_tiles", {1, 64}).value_or(4);
  std::vector<std::int64_t> kept{3, 7, 15, 23, 30};
  vision.optional("intermediate_layers_indices", kept);
  v.feature_layers = 1 + std::ssize(kept);
  const std::int64_t side = v.image_size / v.patch_size;
  v.learned_positions = side * side + 1;
  v.has_class_token = v.is_attended = v.is_wrapped = true;
}

Tensors mllama_block(const VisionSpec& v, std::int64_t layer) {
  const bool is_gated = layer >= v.num_layers - v.num_global_layers;
  const std::string place =
      is_gated ? "/vision_model.global_transformer.layers.{}." : "/vision_model.transformer.layers.{}.";
  Tensors block;
  constexpr std::array kAttention{
      std::pair{LinearSlot::Q, "self_attn.q_proj"}, std::pair{LinearSlot::K, "self_attn.k_proj"},
      std::pair{LinearSlot::V, "self_attn.v_proj"}, std::pair{LinearSlot::O, "self_attn.o_proj"}};
  for (const auto& [slot, name] : kAttention) add_linear(block, slot, place + name, v.hidden_size, v.hidden_size);
  add_linear(block, LinearSlot::Up, place + "mlp.fc1", v.hidden_size, v.intermediate_size, true);
  add_linear(block, LinearSlot::Down, place + "mlp.fc2", v.intermediate_size, v.hidden_size, true);
  add_layer_norm(block, place + "input_layernorm", v.hidden_size);
  add_layer_norm(block, place + "post_attention_layernorm", v.hidden_size);
  if (!is_gated) return block;
  add_gate(block, place + "gate_attn");
  add_gate(block, place + "gate_ffn");
  return block;
}

constexpr std::int64_t kAspectRatios = 9;  // of up to four tiles, and none

void add_mllama_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  const std::int64_t width = v.hidden_size, tiles = v.tiles_together;
  Tensors& before = weights.before;
  add_table(before, "vision_model.class_embedding", {width});
  add_patches(before, v, "vision_model.patch_embedding", false);
  const std::string positions = "vision_model.gated_positional_embedding.";
  add_gate(before, positions + "gate");
  add_table(before, positions + "embedding", {v.learned_positions, width});
  add_table(before, positions + "tile_embedding.weight", {kAspectRatios, tiles * v.learned_positions * width});
  for (const char* name :
       {"vision_model.pre_tile_positional_embedding", "vision_model.post_tile_positional_embedding"}) {
    add_gate(before, std::string(name) + ".gate");
    add_table(before, std::string(name) + ".embedding.weight", {kAspectRatios, tiles * width});
  }
  add_layer_norm(before, "vision_model.layernorm_pre", width);
  add_layer_norm(before, "vision_model.layernorm_post", width);
  add_linear(projector, LinearSlot::MergeUp, "multi_modal_projector", v.feature_layers * width, spec.hidden_size, true);
}

constexpr VisionFamily kMllamaParts{&kMllamaText, "language_model.model.", "", "{}.", "", read_mllama,
                                    mllama_block, add_mllama_ends};

}  // namespace

constinit const Family kMllama = vision_row<kMllamaParts>("mllama", "mllama", "MllamaForConditionalGeneration");

}  // namespace gpuplan
