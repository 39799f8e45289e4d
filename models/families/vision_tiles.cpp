// LFM2-VL and DeepSeek's VL2 and OCR. LFM2-VL: SigLIP 2 on patches of images that keep their shape, cut into tiles
// where they are large; 2 x 2 patches to a token. VL2: SigLIP on tiles of 384 x 384 and on the whole, 2 x 2 patches to
// a token. OCR: a tower of two, SAM's and CLIP's, which is loaded, frozen and not counted in time. Sources of names,
// shapes and defaults: transformers lfm2_vl (5.x), siglip2; modeling_deepseek_vl_v2.py and siglip_vit.py of
// deepseek-ai/deepseek-vl2-tiny; deepencoder.py and modeling_deepseekocr.py of deepseek-ai/DeepSeek-OCR.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/families/vision.h"

namespace gpuplan {
namespace {

using nlohmann::json;

// LFM2-VL.

void read_lfm2_vl(Fields& config, Fields& vision, VisionSpec& v) {
  read_siglip(vision, v, {768, 12, 12, 3072, 224, 16});
  v.learned_positions = vision.optional_integer("num_patches", kPositionRange).value_or(256);
  v.merge = config.optional_integer("downsample_factor", {1, 16}).value_or(2);
  const std::int64_t token = v.patch_size * v.merge * v.patch_size * v.merge;  // pixels of one
  v.min_pixels = token * config.optional_integer("min_image_tokens", {1, 1 << 16}).value_or(64);
  v.max_pixels = token * config.optional_integer("max_image_tokens", {1, 1 << 16}).value_or(256);
  v.image_size = config.optional_integer("tile_size", {1, 1 << 14}).value_or(512);
  v.min_tiles = config.optional_integer("min_tiles", {1, 1 << 10}).value_or(2);
  v.max_tiles = config.optional_integer("max_tiles", {1, 1 << 10}).value_or(10);
  v.tolerance = config.optional_number("max_pixels_tolerance", {1, 100}).value_or(2);
  v.rule = config.optional_flag("do_image_splitting").value_or(true) ? ImageRule::GridOrTiles : ImageRule::Grid;
  v.projector_size = config.optional_integer("projector_hidden_size", kWidthRange).value_or(2560);
  v.has_projector_norm = config.optional_flag("projector_use_layernorm").value_or(true);
  if (!config.optional_flag("projector_bias").value_or(true))
    config.report("projector_bias", "a projector without biases is not modelled");
}

void add_lfm2_vl_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  const std::string tower = "model.vision_tower.vision_model.";
  const std::int64_t wide = v.hidden_size * v.merge * v.merge;
  add_table(weights.before, tower + "embeddings.patch_embedding.weight", {v.hidden_size, v.patch_elements()});
  weights.before.push_back(
      {.name = tower + "embeddings.patch_embedding.bias", .shape = {v.hidden_size}, .role = WeightRole::Bias});
  add_table(weights.before, tower + "embeddings.position_embedding.weight", {v.learned_positions, v.hidden_size});
  add_layer_norm(weights.after, tower + "post_layernorm", v.hidden_size);
  if (v.has_projector_norm) add_layer_norm(projector, "layer_norm", wide);
  add_projector(projector, "linear_1", "linear_2", wide, v.projector_size, spec.hidden_size);
}

constexpr VisionFamily kLfm2VlParts{.text = nullptr,
                                    .language = "model.language_model.",
                                    .tower = "model.vision_tower.vision_model.",
                                    .blocks = "encoder.layers.{}.",
                                    .projector = "model.multi_modal_projector.",
                                    .read = read_lfm2_vl,
                                    .block = siglip_block,
                                    .add_ends = add_lfm2_vl_ends};

// DeepSeek-VL2 and DeepSeek-OCR, whose configs have one type and differ in what vision_config has under "width".

constexpr std::int64_t kOcrTower = 398'746'880 + 2'622'720 + 2 * 1'280;  // SAM and CLIP, the projector, two marks

bool is_ocr(Fields& vision) {
  const json* width = vision.find("width");
  return width && width->is_object();
}

void read_vl2_tower(Fields&, Fields& vision, VisionSpec& v) {
  v.hidden_size = vision.optional_integer("width", kWidthRange).value_or(1152);
  v.num_layers = vision.optional_integer("layers", kLayerRange).value_or(27);
  v.num_heads = vision.optional_integer("heads", kHeadRange).value_or(16);
  v.patch_size = vision.optional_integer("patch_size", kPatchRange).value_or(14);
  v.image_size = vision.optional_integer("image_size", {1, 1 << 14}).value_or(384);
  const double ratio = vision.optional_number("mlp_ratio", {0.1, 64}).value_or(3.7362);
  v.intermediate_size = std::int64_t(double(v.hidden_size) * ratio);
  v.learned_positions = v.image_size / v.patch_size * (v.image_size / v.patch_size);
  v.merge = 2;
  v.pads_merge = true;  // 27 patches a side are padded to 28
  v.rule = ImageRule::Tiles;
  v.max_tiles = 9;
}

Tensors vl2_block(const VisionSpec& v, std::int64_t) {
  Tensors block;
  add_linear(block, LinearSlot::Qkv, "attn.qkv", v.hidden_size, 3 * v.hidden_size, true);
  add_linear(block, LinearSlot::O, "attn.proj", v.hidden_size, v.hidden_size, true);
  add_layer_norm(block, "norm1", v.hidden_size);
  add_layer_norm(block, "norm2", v.hidden_size);
  add_linear(block, LinearSlot::Up, "mlp.fc1", v.hidden_size, v.intermediate_size, true);
  add_linear(block, LinearSlot::Down, "mlp.fc2", v.intermediate_size, v.hidden_size, true);
  return block;
}

void add_vl2_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  const std::int64_t width = v.hidden_size, wide = width * v.merge * v.merge;
  add_patches(weights.before, v, "vision.patch_embed.proj", true);
  add_table(weights.before, "vision.pos_embed", {1, v.learned_positions, width});
  add_layer_norm(weights.after, "vision.norm", width);
  // the attention that pools an image to one vector is loaded and not run
  const std::int64_t pool =
      width + 4 * (width * width + width) + 2 * width + 2 * width * v.intermediate_size + v.intermediate_size + width;
  weights.after.push_back(
      {.name = "vision.attn_pool", .shape = {pool}, .role = WeightRole::Position, .part = ModelPart::Idle});
  add_projector(projector, "layers.0", "layers.2", wide, spec.hidden_size, spec.hidden_size);
  add_table(projector, "/image_newline", {spec.hidden_size});
  add_table(projector, "/view_seperator", {spec.hidden_size});
}

constexpr VisionFamily kVl2Parts{.text = nullptr,
                                 .language = "language.model.",
                                 .tower = "vision.",
                                 .blocks = "blocks.{}.",
                                 .projector = "projector.",
                                 .read = read_vl2_tower,
                                 .block = vl2_block,
                                 .add_ends = add_vl2_ends,
                                 .beside = "language.",
                                 .text_key = "language_config"};

/// Fills in what language_config leaves to the defaults of its class.
json with_language(Fields& config) {
  json read = config.find("language_config") ? *config.find("language_config") : json::object();
  if (!read.is_object()) return read;
  for (const auto& [key, otherwise] : {std::pair{"vocab_size", 102400}, {"n_shared_experts", 2}})
    if (!read.contains(key)) read[key] = otherwise;
  return read;
}

void read_vl2(Fields& config, ModelSpec& spec) {
  const json keys = with_language(config);
  Fields language = config.fields_as("language_config", keys);
  // without latent attention it is the first of DeepSeek's models in all but its name
  const Family* text = language.optional_flag("use_mla").value_or(true) ? &kDeepSeekV2 : &kDeepSeek;
  text->read(language, spec);
  spec.text_family = text->name;
  auto vision = config.optional_fields("vision_config");
  if (!vision) return;
  if (is_ocr(*vision)) {
    spec.idle_parameters = kOcrTower;
    return;
  }
  read_vl2_tower(config, *vision, spec.vision);
}

ModelWeights list_vl2(const ModelSpec& spec) {
  if (spec.vision.is_present()) return list_with_tower(spec, kVl2Parts);
  ModelWeights weights = (spec.text_family == kDeepSeekV2.name ? kDeepSeekV2 : kDeepSeek).list(spec);
  add_idle(weights, spec, "what reads pages");
  return weights;
}

}  // namespace

constinit const Family kLfm2Vl{
    .name = "lfm2_vl",
    .model_type = "lfm2_vl",
    .architecture = "Lfm2VlForConditionalGeneration",
    .read = [](Fields& config, ModelSpec& spec) { read_with_tower(config, spec, kLfm2VlParts); },
    .list = [](const ModelSpec& spec) { return list_with_tower(spec, kLfm2VlParts); }};
constinit const Family kDeepSeekVl2{.name = "deepseek_vl_v2",
                                    .model_type = "deepseek_vl_v2",
                                    .architecture = "DeepseekVLV2ForCausalLM",
                                    .other_architecture = "DeepseekOCRForCausalLM",
                                    .read = read_vl2,
                                    .list = list_vl2};

}  // namespace gpuplan
