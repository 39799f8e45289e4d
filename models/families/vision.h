// What the vision-language families have in common: a tower and a projector in front of a language model of a known
// family. A file for towers that take images of any size, and one for those that take squares.
#pragma once

#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {

/// Holds what differs between the models with a tower.
struct VisionFamily {
  const Family* text;                                 // nullptr: that of text_config's model_type
  const char *language, *tower, *blocks, *projector;  // how names of tensors begin; blocks: behind `tower`
  void (*read)(Fields& config, Fields& vision, VisionSpec& v);
  Tensors (*block)(const VisionSpec& v, std::int64_t layer);
  void (*add_ends)(ModelWeights& weights, Tensors& projector, const ModelSpec& spec);
  const char* beside = "";  // in front of the head's name
  const char* text_key = "text_config";
  // names of the mergers in the middle (deepstack)
  const char *deepstack = "/model.visual.deepstack_merger_list.{}.", *merger_norm = "norm", *merger_up = "linear_fc1",
             *merger_down = "linear_fc2";
};

inline constexpr IntRange kPatchRange{1, 1 << 10};

void read_with_tower(Fields& config, ModelSpec& spec, const VisionFamily& family);
/// The language model's tensors, with the tower and the projector before its layers.
ModelWeights list_with_tower(const ModelSpec& spec, const VisionFamily& family);

template <const VisionFamily& family>
constexpr Family vision_row(std::string_view name, std::string_view model_type, std::string_view architecture) {
  return {.name = name,
          .model_type = model_type,
          .architecture = architecture,
          .read = [](Fields& config, ModelSpec& spec) { read_with_tower(config, spec, family); },
          .list = [](const ModelSpec& spec) { return list_with_tower(spec, family); }};
}

/// Parts that are loaded, frozen and never run, of so many parameters together.
void add_idle(ModelWeights& weights, const ModelSpec& spec, const char* name);
/// Norms and linears with biases of one block of SigLIP.
Tensors siglip_block(const VisionSpec& v, std::int64_t layer);
/// hidden_size, num_hidden_layers and their like of a SigLIP of any size, whose pooling head is not loaded.
struct SquareDefaults {
  std::int64_t hidden_size, num_layers, num_heads, intermediate_size, image_size, patch_size;
};
void read_siglip(Fields& vision, VisionSpec& v, const SquareDefaults& defaults);

/// The convolution that makes a row of each patch.
void add_patches(Tensors& tensors, const VisionSpec& v, const std::string& name, bool has_bias);
/// A learned table or vector.
void add_table(Tensors& tensors, const std::string& name, std::vector<std::int64_t> shape);
/// Two Linears behind each other, GELU between them.
void add_projector(Tensors& tensors, const std::string& first, const std::string& second, std::int64_t in,
                   std::int64_t middle, std::int64_t out);

}  // namespace gpuplan
