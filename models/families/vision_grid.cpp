// Qwen2-VL, 2.5 and 3: images of any size on a grid, rotary positions in two dimensions, 2 x 2 patches to a token. 2.5
// has RMS norms, a gated MLP and windows; 3 has a position table too, and mergers in the middle (deepstack). The bounds
// of an image's area stand in the models' preprocessor_config.json: 3,136 to 12,845,056 pixels, of Qwen3-VL 65,536 to
// 16,777,216.
// Sources of names, shapes and defaults: transformers 4.57, configuration_*.py and modeling_*.py of qwen2_vl,
// qwen2_5_vl and qwen3_vl; 5.x of qwen3_5.
#include <nlohmann/json.hpp>

#include "models/families/vision.h"

namespace gpuplan {
namespace {

using nlohmann::json;

std::vector<std::int64_t> read_layers(Fields& vision, const char* key, std::vector<std::int64_t> otherwise) {
  std::vector<std::int64_t> layers = std::move(otherwise);
  vision.optional(key, layers);
  return layers;
}

void read_grid(Fields& vision, VisionSpec& v, std::int64_t patch, const char* width_key) {
  v.num_layers = vision.optional_integer("depth", kLayerRange).value_or(32);
  v.hidden_size = vision.integer(width_key, kWidthRange);
  v.num_heads = vision.optional_integer("num_heads", kHeadRange).value_or(16);
  v.patch_size = vision.optional_integer("patch_size", kPatchRange).value_or(patch);
  v.temporal_patch_size = vision.optional_integer("temporal_patch_size", kPatchRange).value_or(2);
  v.merge = vision.optional_integer("spatial_merge_size", {1, 16}).value_or(2);
  v.rule = ImageRule::Grid;
  v.min_pixels = 56 * 56, v.max_pixels = 12'845'056;
  v.is_rotary = v.is_wrapped = true;
}

void read_qwen2_vl(Fields&, Fields& vision, VisionSpec& v) {
  read_grid(vision, v, 14, "embed_dim");
  v.intermediate_size = v.hidden_size * vision.optional_integer("mlp_ratio", {1, 64}).value_or(4);
}

void read_qwen25_vl(Fields&, Fields& vision, VisionSpec& v) {
  read_grid(vision, v, 14, "hidden_size");
  v.intermediate_size = vision.optional_integer("intermediate_size", kFfnRange).value_or(3420);
  const std::int64_t side = vision.optional_integer("window_size", {1, 1 << 16}).value_or(112) / v.patch_size;
  v.window = side * side;
  v.full_layers = read_layers(vision, "fullatt_block_indexes", {7, 15, 23, 31});
  v.is_rms = v.is_gated = true;
}

void read_qwen3_vl(Fields&, Fields& vision, VisionSpec& v) {
  read_grid(vision, v, 16, "hidden_size");
  v.intermediate_size = vision.integer("intermediate_size", kFfnRange);
  v.learned_positions = vision.optional_integer("num_position_embeddings", kPositionRange).value_or(2304);
  v.deepstack_layers = read_layers(vision, "deepstack_visual_indexes", {8, 16, 24});
  v.min_pixels = 65'536, v.max_pixels = 16'777'216;
}

/// Qwen3.5's tower is Qwen3-VL's without mergers in the middle.
void read_qwen35_vision(Fields& config, Fields& vision, VisionSpec& v) {
  read_qwen3_vl(config, vision, v);
  if (!vision.find("deepstack_visual_indexes")) v.deepstack_layers.clear();
}

void add_tower_norm(Tensors& tensors, const VisionSpec& v, const std::string& name) {
  if (v.is_rms)
    add_norm(tensors, name, v.hidden_size);
  else
    add_layer_norm(tensors, name, v.hidden_size);
}

Tensors qwen_block(const VisionSpec& v, std::int64_t) {
  Tensors block;
  const std::int64_t width = v.hidden_size, ffn = v.intermediate_size;
  add_tower_norm(block, v, "norm1");
  add_tower_norm(block, v, "norm2");
  add_linear(block, LinearSlot::Qkv, "attn.qkv", width, 3 * width, true);
  add_linear(block, LinearSlot::O, "attn.proj", width, width, true);
  if (v.is_gated) {
    add_linear(block, LinearSlot::Gate, "mlp.gate_proj", width, ffn, true);
    add_linear(block, LinearSlot::Up, "mlp.up_proj", width, ffn, true);
    add_linear(block, LinearSlot::Down, "mlp.down_proj", ffn, width, true);
  } else {
    add_linear(block, LinearSlot::Up, v.learned_positions > 0 ? "mlp.linear_fc1" : "mlp.fc1", width, ffn, true);
    add_linear(block, LinearSlot::Down, v.learned_positions > 0 ? "mlp.linear_fc2" : "mlp.fc2", ffn, width, true);
  }
  return block;
}

void add_qwen_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  const bool is_third = v.learned_positions > 0;
  const std::string tower = is_third ? "model.visual." : "visual.";
  add_patches(weights.before, v, tower + "patch_embed.proj", is_third);
  if (is_third) add_table(weights.before, tower + "pos_embed.weight", {v.learned_positions, v.hidden_size});
  const std::int64_t wide = v.hidden_size * v.merge * v.merge;
  add_tower_norm(projector, v, is_third ? "norm" : "ln_q");
  add_projector(projector, is_third ? "linear_fc1" : "mlp.0", is_third ? "linear_fc2" : "mlp.2", wide, wide,
                spec.hidden_size);
}

constexpr VisionFamily kQwen2Parts{&kQwen2,          "model.",      "visual.",  "blocks.{}.",
                                   "visual.merger.", read_qwen2_vl, qwen_block, add_qwen_ends};
constexpr VisionFamily kQwen25Parts{&kQwen2,          "model.",       "visual.",  "blocks.{}.",
                                    "visual.merger.", read_qwen25_vl, qwen_block, add_qwen_ends};
constexpr VisionFamily kQwen3Parts{&kQwen3,
                                   "model.language_model.",
                                   "model.visual.",
                                   "blocks.{}.",
                                   "model.visual.merger.",
                                   read_qwen3_vl,
                                   qwen_block,
                                   add_qwen_ends};
constexpr VisionFamily kQwen3MoeParts{&kQwen3Moe,
                                      "model.language_model.",
                                      "model.visual.",
                                      "blocks.{}.",
                                      "model.visual.merger.",
                                      read_qwen3_vl,
                                      qwen_block,
                                      add_qwen_ends};
constexpr VisionFamily kQwen35Parts{&kQwen35Text,           "model.language_model.", "model.visual.", "blocks.{}.",
                                    "model.visual.merger.", read_qwen35_vision,      qwen_block,      add_qwen_ends};
constexpr VisionFamily kQwen35MoeParts{&kQwen35MoeText,        "model.language_model.", "model.visual.", "blocks.{}.",
                                       "model.visual.merger.", read_qwen35_vision,      qwen_block,      add_qwen_ends};

}  // namespace

constinit const Family kQwen2Vl = vision_row<kQwen2Parts>("qwen2_vl", "qwen2_vl", "Qwen2VLForConditionalGeneration");
constinit const Family kQwen25Vl =
    vision_row<kQwen25Parts>("qwen2_5_vl", "qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration");
constinit const Family kQwen3Vl = vision_row<kQwen3Parts>("qwen3_vl", "qwen3_vl", "Qwen3VLForConditionalGeneration");
constinit const Family kQwen3VlMoe =
    vision_row<kQwen3MoeParts>("qwen3_vl_moe", "qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration");
constinit const Family kQwen35 = vision_row<kQwen35Parts>("qwen3_5", "qwen3_5", "Qwen3_5ForConditionalGeneration");
constinit const Family kQwen35Moe =
    vision_row<kQwen35MoeParts>("qwen3_5_moe", "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration");

}  // namespace gpuplan
