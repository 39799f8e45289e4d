// Vision towers that take squares: an image is resized to one, or cut into several. SigLIP, CLIP and InternViT, with a
// learned table of positions. Sources of names, shapes and defaults: transformers 4.57, configuration_*.py,
// modeling_*.py and image_processing_*.py of gemma3, siglip, llava, llava_next, llava_onevision, clip, paligemma,
// idefics3, smolvlm and internvl.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/families/vision.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// InternVL states the sides of a square: [448, 448].
std::int64_t read_side(Fields& vision, const char* key, std::int64_t otherwise) {
  const json* found = vision.find(key);
  if (!found || !found->is_array()) return vision.optional_integer(key, {1, 1 << 16}).value_or(otherwise);
  const bool is_square = found->size() == 2 && (*found)[0].is_number_integer() && (*found)[0] == (*found)[1] &&
                         (*found)[0] >= 1 && (*found)[0] <= 1 << 16;
  if (!is_square) vision.report(key, "must be one side, or two equal ones");
  return is_square ? (*found)[0].get<std::int64_t>() : otherwise;
}

void read_square(Fields& vision, VisionSpec& v, const SquareDefaults& d) {
  v.hidden_size = vision.optional_integer("hidden_size", kWidthRange).value_or(d.hidden_size);
  v.num_layers = vision.optional_integer("num_hidden_layers", kLayerRange).value_or(d.num_layers);
  v.num_heads = vision.optional_integer("num_attention_heads", kHeadRange).value_or(d.num_heads);
  v.intermediate_size = vision.optional_integer("intermediate_size", kFfnRange).value_or(d.intermediate_size);
  v.image_size = read_side(vision, "image_size", d.image_size);
  v.patch_size = read_side(vision, "patch_size", d.patch_size);
  const std::int64_t side = v.image_size / v.patch_size;
  v.learned_positions = side * side + (v.has_class_token ? 1 : 0);
}

}  // namespace

void read_siglip(Fields& vision, VisionSpec& v, const SquareDefaults& d) {
  read_square(vision, v, d);
  if (vision.optional_flag("vision_use_head").value_or(false))
    vision.report("vision_use_head", "a tower with its pooling head is not modelled");
}

namespace {

struct BlockNames {
  std::array<const char*, 2> norms;
  std::array<const char*, 4> attention;  // q, k, v, o
};

Tensors square_block(const VisionSpec& v, const BlockNames& names) {
  Tensors block;
  const std::int64_t width = v.hidden_size, ffn = v.intermediate_size;
  constexpr std::array kSlots{LinearSlot::Q, LinearSlot::K, LinearSlot::V, LinearSlot::O};
  for (std::size_t i = 0; i < kSlots.size(); ++i) add_linear(block, kSlots[i], names.attention[i], width, width, true);
  for (const char* name : names.norms) add_layer_norm(block, name, width);
  add_linear(block, LinearSlot::Up, "mlp.fc1", width, ffn, true);
  add_linear(block, LinearSlot::Down, "mlp.fc2", ffn, width, true);
  if (v.has_layer_scale)
    for (const char* name : {"lambda_1", "lambda_2"})
      block.push_back({.name = name, .shape = {width}, .role = WeightRole::Norm});
  return block;
}

}  // namespace

Tensors siglip_block(const VisionSpec& v, std::int64_t) {
  return square_block(v, {{"layer_norm1", "layer_norm2"},
                          {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"}});
}

namespace {

constexpr const char* kSiglipTower = "vision_tower.vision_model.";

void add_siglip_ends(ModelWeights& weights, const VisionSpec& v, const std::string& tower) {
  add_patches(weights.before, v, tower + "embeddings.patch_embedding", true);
  add_table(weights.before, tower + "embeddings.position_embedding.weight", {v.learned_positions, v.hidden_size});
  add_layer_norm(weights.after, tower + "post_layernorm", v.hidden_size);
}

// Gemma 3: SigLIP at 896 x 896 without its pooling head; the mean of 4 x 4 patches makes one of 256 tokens, normalised
// and multiplied by a bare matrix.

void read_gemma3_vision(Fields& config, Fields& vision, VisionSpec& v) {
  read_square(vision, v, {1152, 27, 16, 4304, 896, 14});
  const std::int64_t tokens = config.optional_integer("mm_tokens_per_image", {1, 1 << 20}).value_or(256);
  const std::int64_t side = v.image_size / v.patch_size;
  v.merge = 1;
  while (v.merge < side && side / v.merge * (side / v.merge) > tokens) ++v.merge;
  v.merges_by_mean = v.is_wrapped = true;
}

void add_gemma3_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  add_siglip_ends(weights, v, kSiglipTower);
  projector.push_back({.name = "mm_input_projection_weight",
                       .shape = {v.hidden_size, spec.hidden_size},
                       .role = WeightRole::Stacked,
                       .in = v.hidden_size,
                       .out = spec.hidden_size,
                       .slot = LinearSlot::MergeUp});
  add_norm(projector, "mm_soft_emb_norm", v.hidden_size);
}

constexpr VisionFamily kGemma3Parts{&kGemma3Text,         "language_model.model.",  kSiglipTower,
                                    "encoder.layers.{}.", "multi_modal_projector.", read_gemma3_vision,
                                    siglip_block,         add_gemma3_ends};

// PaliGemma and PaliGemma 2: SigLIP at 224, 448 or 896 pixels, one linear, Gemma 1 or 2.

void read_paligemma(Fields&, Fields& vision, VisionSpec& v) { read_siglip(vision, v, {1152, 27, 16, 4304, 224, 14}); }

void add_paligemma_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  add_siglip_ends(weights, spec.vision, kSiglipTower);
  add_linear(projector, LinearSlot::MergeUp, "linear", spec.vision.hidden_size, spec.hidden_size, true);
}

constexpr VisionFamily kPaliGemmaParts{
    nullptr,      "language_model.model.", kSiglipTower, "encoder.layers.{}.", "multi_modal_projector.", read_paligemma,
    siglip_block, add_paligemma_ends};

// Idefics3 and SmolVLM: SigLIP on squares of an image whose longer side is resized to four of them, and on the whole;
// scale_factor x scale_factor patches to a token. Four: size and max_image_size of their preprocessor_config.json.

void read_idefics3(Fields& config, Fields& vision, VisionSpec& v) {
  read_siglip(vision, v, {1152, 12, 16, 3072, 224, 32});
  v.merge = config.optional_integer("scale_factor", {1, 16}).value_or(2);
  v.rule = ImageRule::LongestEdge;
  v.longest_edge = 4 * v.image_size;
}

constexpr const char* kIdeficsTower = "model.vision_model.";

void add_idefics3_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  add_siglip_ends(weights, v, kIdeficsTower);
  add_linear(projector, LinearSlot::MergeUp, "modality_projection.proj", v.hidden_size * v.merge * v.merge,
             spec.hidden_size);
}

constexpr VisionFamily kIdefics3Parts{
    nullptr,       "model.text_model.", kIdeficsTower,    "encoder.layers.{}.", "model.connector.",
    read_idefics3, siglip_block,        add_idefics3_ends};

// LLaVA 1.5, LLaVA-NeXT (1.6) and LLaVA-OneVision: CLIP's ViT-L at 336 x 336, or SigLIP at 384 x 384. CLIP's class
// token takes part in the tower and is left out behind it: 576 tokens. The later two pad an image to one of a list of
// sizes and cut it; its patches without the padding, a learned end behind each row of them, and a thumbnail are its
// tokens. OneVision interpolates them to at most as many as nine squares have (anyres_max_9).

void read_llava_tower(Fields& config, Fields& vision, VisionSpec& v) {
  const std::string type = vision.optional_text("model_type").value_or("clip_vision_model");
  if (type == "siglip_vision_model") return read_siglip(vision, v, {768, 12, 12, 3072, 224, 16});
  if (type != "clip_vision_model")
    config.report("vision_config", fmt::format("a tower '{}' is not modelled here, only CLIP's and SigLIP's", type));
  v.has_class_token = true;
  read_square(vision, v, {1024, 24, 16, 4096, 336, 14});
}

void read_llava(Fields& config, Fields& vision, VisionSpec& v) {
  read_llava_tower(config, vision, v);
  if (const json* layers = config.find("vision_feature_layer"); layers && layers->is_array())
    v.feature_layers = std::max<std::int64_t>(1, std::ssize(*layers));
  if (!config.optional_flag("multimodal_projector_bias").value_or(true))
    config.report("multimodal_projector_bias", "a projector without biases is not modelled");
}

constexpr std::size_t kMostPinpoints = 1024;

/// [height, width] of each size, whole squares of the tower.
void read_pinpoints(Fields& config, VisionSpec& v) {
  const char* key = "image_grid_pinpoints";
  const json* list = config.find(key);
  if (!list || config.has_problems()) return;
  const auto is_side = [&](const json& side) {
    return side.is_number_integer() && side >= v.image_size && side <= 1 << 16 &&
           side.get<std::int64_t>() % v.image_size == 0;
  };
  const auto is_size = [&](const json& size) {
    return size.is_array() && size.size() == 2 && is_side(size[0]) && is_side(size[1]);
  };
  if (!list->is_array() || list->empty() || list->size() > kMostPinpoints || !std::ranges::all_of(*list, is_size))
    return config.report(key, fmt::format("must list sizes of whole squares of {} pixels", v.image_size));
  v.pinpoints.clear();
  for (const json& size : *list) v.pinpoints.push_back({size[0].get<std::int64_t>(), size[1].get<std::int64_t>()});
}

void read_llava_next(Fields& config, Fields& vision, VisionSpec& v) {
  read_llava(config, vision, v);
  v.rule = ImageRule::Pinpoints;
  for (const ImageSide& squares : {ImageSide{1, 2}, {2, 1}, {2, 2}, {3, 1}, {1, 3}})
    v.pinpoints.push_back({squares.height * v.image_size, squares.width * v.image_size});
  read_pinpoints(config, v);
}

void read_onevision(Fields& config, Fields& vision, VisionSpec& v) {
  read_llava(config, vision, v);
  v.rule = ImageRule::Pinpoints;
  v.feature_limit = 9;
  for (std::int64_t rows = 1; rows <= 6; ++rows)
    for (std::int64_t columns = 1; columns <= 6; ++columns)
      v.pinpoints.push_back({rows * v.image_size, columns * v.image_size});
  read_pinpoints(config, v);
  const std::string aspect = config.optional_text("vision_aspect_ratio").value_or("anyres_max_9");
  if (aspect != "anyres_max_9")
    config.report("vision_aspect_ratio", fmt::format("'{}' is not modelled, only anyres_max_9", aspect));
}

void add_llava_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  const std::string tower = kSiglipTower;
  if (v.has_class_token) {
    add_table(weights.before, tower + "embeddings.class_embedding", {v.hidden_size});
    add_patches(weights.before, v, tower + "embeddings.patch_embedding", false);
    add_table(weights.before, tower + "embeddings.position_embedding.weight", {v.learned_positions, v.hidden_size});
    add_layer_norm(weights.before, tower + "pre_layrnorm", v.hidden_size);
    add_layer_norm(weights.after, tower + "post_layernorm", v.hidden_size);
  } else {
    add_siglip_ends(weights, v, tower);
  }
  add_projector(projector, "multi_modal_projector.linear_1", "multi_modal_projector.linear_2",
                v.feature_layers * v.hidden_size, spec.hidden_size, spec.hidden_size);
  if (v.rule == ImageRule::Pinpoints) add_table(projector, "image_newline", {spec.hidden_size});
}

constexpr VisionFamily kLlavaParts{
    nullptr, "language_model.model.", kSiglipTower, "encoder.layers.{}.", "", read_llava, siglip_block, add_llava_ends};
constexpr VisionFamily kLlavaNextParts{nullptr, "language_model.model.", kSiglipTower, "encoder.layers.{}.",
                                       "",      read_llava_next,         siglip_block, add_llava_ends};
constexpr VisionFamily kOneVisionParts{nullptr, "language_model.model.", kSiglipTower, "encoder.layers.{}.",
                                       "",      read_onevision,          siglip_block, add_llava_ends};

// InternVL 2.5 and 3 in the form that transformers reads (…-hf): tiles of 448 x 448, at most 12 and a thumbnail; 2 x 2
// patches to a token. With InternViT-300M; the 6B tower has other norms.

void read_internvl(Fields& config, Fields& vision, VisionSpec& v) {
  if (vision.optional_text("norm_type").value_or("layer_norm") != "layer_norm" ||
      vision.optional_flag("use_qk_norm").value_or(false))
    config.report("vision_config", "InternViT-6B (RMS norms, norms on queries and keys) is not modelled");
  v.has_class_token = v.has_layer_scale = true;
  read_square(vision, v, {1024, 24, 16, 4096, 448, 14});
  const double ratio = config.optional_number("downsample_ratio", {0.0625, 1}).value_or(0.5);
  v.merge = std::int64_t(1 / ratio + 0.5);
  v.rule = ImageRule::Tiles;
  v.max_tiles = 12;
}

Tensors internvl_block(const VisionSpec& v, std::int64_t) {
  return square_block(v, {{"layernorm_before", "layernorm_after"},
                          {"attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.projection_layer"}});
}

void add_internvl_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  add_table(weights.before, "vision_tower.embeddings.cls_token", {v.hidden_size});
  add_patches(weights.before, v, "vision_tower.embeddings.patch_embeddings.projection", true);
  add_table(weights.before, "vision_tower.embeddings.position_embeddings", {v.learned_positions, v.hidden_size});
  const std::int64_t wide = v.hidden_size * v.merge * v.merge;
  add_layer_norm(projector, "layer_norm", wide);
  add_projector(projector, "linear_1", "linear_2", wide, spec.hidden_size, spec.hidden_size);
}

constexpr VisionFamily kInternVlParts{
    nullptr,       "language_model.model.", "vision_tower.",  "encoder.layer.{}.", "multi_modal_projector.",
    read_internvl, internvl_block,          add_internvl_ends};

}  // namespace

constinit const Family kGemma3 = vision_row<kGemma3Parts>("gemma3_vl", "gemma3", "Gemma3ForConditionalGeneration");
constinit const Family kPaliGemma =
    vision_row<kPaliGemmaParts>("paligemma", "paligemma", "PaliGemmaForConditionalGeneration");
constinit const Family kIdefics3 =
    vision_row<kIdefics3Parts>("idefics3", "idefics3", "Idefics3ForConditionalGeneration");
constinit const Family kSmolVlm = vision_row<kIdefics3Parts>("smolvlm", "smolvlm", "SmolVLMForConditionalGeneration");
constinit const Family kLlava = vision_row<kLlavaParts>("llava", "llava", "LlavaForConditionalGeneration");
constinit const Family kLlavaNext =
    vision_row<kLlavaNextParts>("llava_next", "llava_next", "LlavaNextForConditionalGeneration");
constinit const Family kOneVision =
    vision_row<kOneVisionParts>("llava_onevision", "llava_onevision", "LlavaOnevisionForConditionalGeneration");
constinit const Family kInternVl =
    vision_row<kInternVlParts>("internvl", "internvl", "InternVLForConditionalGeneration");

}  // namespace gpuplan
