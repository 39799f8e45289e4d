// Vision-language models: a vision tower and a projector in front of a language model of a known family. An image is
// cut into patches; the tower's blocks work on them; the projector turns them into rows of the language model's
// sequence. Sources of names, shapes and defaults: transformers 4.57, configuration_*.py and modeling_*.py of qwen2_vl,
// qwen2_5_vl, qwen3_vl, gemma3, siglip, llava, clip and internvl, and the image processors of these models.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/families.h"
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// What differs between the models of this file.
struct VisionFamily {
  const Family* text;                                 // nullptr: that of text_config's model_type
  const char *language, *tower, *blocks, *projector;  // how names of tensors begin; blocks: behind `tower`
  void (*read)(Fields& config, Fields& vision, VisionSpec& v);
  void (*write)(const ModelSpec& spec, json& config, json& vision);
  Tensors (*block)(const VisionSpec& v);
  void (*add_ends)(ModelWeights& weights, Tensors& projector, const ModelSpec& spec);
};

Tensors of_part(Tensors tensors, ModelPart part) {
  for (WeightTensor& t : tensors) t.part = part;
  return tensors;
}

void add_patches(Tensors& tensors, const VisionSpec& v, const std::string& name, bool has_bias) {
  std::vector<std::int64_t> shape{v.hidden_size, 3, v.patch_size, v.patch_size};
  if (v.temporal_patch_size > 1) shape.insert(shape.begin() + 2, v.temporal_patch_size);
  tensors.push_back({.name = name + ".weight", .shape = std::move(shape), .role = WeightRole::Position});
  if (has_bias) tensors.push_back({.name = name + ".bias", .shape = {v.hidden_size}, .role = WeightRole::Bias});
}

void add_table(Tensors& tensors, const std::string& name, std::vector<std::int64_t> shape) {
  tensors.push_back({.name = name, .shape = std::move(shape), .role = WeightRole::Position});
}

/// A Linear or two behind each other, GELU between them.
void add_projector(Tensors& tensors, const std::string& first, const std::string& second, std::int64_t in,
                   std::int64_t middle, std::int64_t out) {
  add_linear(tensors, LinearSlot::MergeUp, first, in, middle, true);
  add_linear(tensors, LinearSlot::MergeDown, second, middle, out, true);
}

void put_in_front(Tensors& tensors, const std::string& prefix) {
  for (WeightTensor& t : tensors) t.name = prefix + t.name;
}

/// The family of the language model of `spec`.
const Family& language_of(const VisionFamily& f, const ModelSpec& spec) {
  if (f.text) return *f.text;
  for (const Family* family : families())
    if (family->name == spec.text_family) return *family;
  throw InputError(spec.source, fmt::format("a language model '{}' is not modelled", spec.text_family));
}

/// The language model's tensors of `text`, with the tower and the projector before its layers.
ModelWeights list_with(const VisionFamily& f, const ModelSpec& spec) {
  ModelWeights weights = language_of(f, spec).list(spec);
  const VisionSpec& v = spec.vision;
  const std::string language = f.language;
  // the head stands beside the layers' module: "language_model.lm_head", or "lm_head" at the top
  const std::string beside = language.starts_with("language_model.") ? "language_model." : "";
  const auto renamed = [&](const std::string& name) {
    return name.starts_with("model.") ? language + name.substr(6) : beside + name;
  };
  if (!v.is_present()) return weights;
  for (WeightTensor& t : weights.before) t.name = renamed(t.name);
  for (WeightTensor& t : weights.after) t.name = renamed(t.name);
  for (LayerKind& kind : weights.kinds) {
    kind.prefix = renamed(kind.prefix);
    kind.offset += v.num_units();
  }
  Tensors projector;
  ModelWeights ends;
  f.add_ends(ends, projector, spec);
  for (WeightTensor& t : of_part(std::move(ends.before), ModelPart::Tower)) weights.before.push_back(std::move(t));
  for (WeightTensor& t : ends.after) t.part = ModelPart::Tower, projector.push_back(t);

  const std::size_t num_text_kinds = weights.kinds.size();
  std::vector<std::uint8_t> order;
  const auto kind_of_block = [&](std::int64_t layer) {
    const bool is_windowed = v.is_windowed(layer), is_deepstack = v.is_deepstack(layer);
    for (std::size_t k = num_text_kinds; k < weights.kinds.size(); ++k)
      if (weights.kinds[k].is_windowed == is_windowed && weights.kinds[k].makes_deepstack == is_deepstack)
        return std::uint8_t(k);
    LayerKind kind{.name = is_windowed    ? "windowed vision block"
                           : is_deepstack ? "vision block with a deepstack merger"
                                          : "vision block",
                   .prefix = std::string(f.tower) + f.blocks,
                   .tensors = of_part(f.block(v), ModelPart::Tower),
                   .is_causal = false,
                   .part = ModelPart::Tower,
                   .is_windowed = is_windowed,
                   .makes_deepstack = is_deepstack};
    if (is_deepstack) {
      Tensors merger;
      const std::int64_t wide = v.hidden_size * v.merge * v.merge;
      add_layer_norm(merger, "/model.visual.deepstack_merger_list.{}.norm", wide);
      add_projector(merger, "/model.visual.deepstack_merger_list.{}.linear_fc1",
                    "/model.visual.deepstack_merger_list.{}.linear_fc2", wide, wide, spec.hidden_size);
      for (WeightTensor& t : of_part(std::move(merger), ModelPart::Tower)) kind.tensors.push_back(std::move(t));
    }
    weights.kinds.push_back(std::move(kind));
    return std::uint8_t(weights.kinds.size() - 1);
  };
  for (std::int64_t i = 0; i < v.num_layers; ++i) order.push_back(kind_of_block(i));
  order.push_back(std::uint8_t(weights.kinds.size()));
  put_in_front(projector, f.projector);
  for (WeightTensor& t : projector)
    if (t.part == ModelPart::Language) t.part = ModelPart::Projector;
  weights.kinds.push_back({.name = "projector",
                           .prefix = "",
                           .tensors = std::move(projector),
                           .is_causal = false,
                           .is_bridge = true,
                           .part = ModelPart::Projector});
  // the layers that add deepstack features are kinds of their own
  std::int64_t readers = std::ssize(v.deepstack_layers);
  for (const std::uint8_t kind : weights.order) {
    std::uint8_t used = kind;
    if (readers-- > 0) {
      const auto same = std::find_if(weights.kinds.begin(), weights.kinds.end(), [&](const LayerKind& k) {
        return k.reads_deepstack && k.is_moe == weights.kinds[kind].is_moe;
      });
      used = std::uint8_t(same - weights.kinds.begin());
      if (same == weights.kinds.end()) {
        LayerKind copy = weights.kinds[kind];
        copy.reads_deepstack = true;
        copy.name = "layer with deepstack features";
        weights.kinds.push_back(std::move(copy));
      }
    }
    order.push_back(used);
  }
  weights.order = std::move(order);
  // kinds in the order of first use: the first is the tower's, the last the language model's
  std::vector<LayerKind> sorted;
  std::vector<std::uint8_t> place(weights.kinds.size(), 0xff);
  for (std::uint8_t& kind : weights.order) {
    if (place[kind] == 0xff) {
      place[kind] = std::uint8_t(sorted.size());
      sorted.push_back(weights.kinds[kind]);
    }
    kind = place[kind];
  }
  weights.kinds = std::move(sorted);
  return weights;
}

/// Sizes that the class of a text_config has where the config leaves them out, as older configs do.
json text_defaults(std::string_view type) {
  if (type == "llama")
    return {{"hidden_size", 4096},
            {"num_hidden_layers", 32},
            {"num_attention_heads", 32},
            {"intermediate_size", 11008},
            {"vocab_size", 32000}};
  if (type == "mistral")
    return {{"hidden_size", 4096},      {"num_hidden_layers", 32},    {"num_attention_heads", 32},
            {"num_key_value_heads", 8}, {"intermediate_size", 14336}, {"vocab_size", 32000}};
  return json::object();
}

/// text_config, or the config itself where its keys stand at the top (Qwen2-VL's own files).
void read_language(Fields& config, ModelSpec& spec, const VisionFamily& f) {
  const json* nested = config.find("text_config");
  if (nested && !nested->is_object()) return void(config.fields("text_config"));  // says what it must be
  if (!nested) {
    if (!f.text) return config.report("text_config", "is needed: it says what the language model is");
    spec.text_family = f.text->name;
    return f.text->read(config, spec);
  }
  const json named = nested->value("model_type", json());
  const std::string type = named.is_string() ? named.get<std::string>() : "";
  const Family* text = f.text ? f.text : find_family(type, {});
  if (!text || (!f.text && type.empty()))
    return config.report("text_config", fmt::format("its model_type '{}' is not modelled", type));
  spec.text_family = text->name;
  json filled = text_defaults(type);
  filled.update(*nested);
  if (!filled.contains("tie_word_embeddings") && config.is_given("tie_word_embeddings"))
    filled["tie_word_embeddings"] = *config.find("tie_word_embeddings");
  if (filled == *nested) {
    Fields fields = config.fields("text_config");
    return text->read(fields, spec);
  }
  try {
    Fields fields(filled, config.file(), "text_config.");
    text->read(fields, spec);
    fields.finish();
  } catch (const InputError& error) { config.report("text_config", error.problem()); }
}

void check_tower(Fields& config, const VisionSpec& v) {
  if (config.has_problems()) return;
  if (v.hidden_size % v.num_heads != 0)
    return config.report("vision_config", fmt::format("{} heads do not divide {}", v.num_heads, v.hidden_size));
  const std::int64_t patches = v.patch_size > 0 ? v.image_size / v.patch_size : 0;
  if (v.rule != ImageRule::Grid && (patches < 1 || patches % v.merge != 0))
    config.report("vision_config", fmt::format("an image of {} is no grid of patches of {}, {} x {} merged",
                                               v.image_size, v.patch_size, v.merge, v.merge));
}

template <const VisionFamily& f>
void read_model(Fields& config, ModelSpec& spec) {
  read_language(config, spec, f);
  if (spec.moe.is_present()) spec.moe.is_stacked = true;  // Qwen3VLMoeTextExperts
  auto vision = config.optional_fields("vision_config");
  if (!vision) return;  // the language model alone
  f.read(config, *vision, spec.vision);
  check_tower(config, spec.vision);
}

template <const VisionFamily& f>
void write_model(const ModelSpec& spec, json& config) {
  const Family& text = language_of(f, spec);
  json language{{"model_type", text.model_type}};
  text.write(spec, language);
  config["text_config"] = std::move(language);
  config["tie_word_embeddings"] = spec.tie_word_embeddings;
  if (!spec.vision.is_present()) return;
  json vision = json::object();
  f.write(spec, config, vision);
  config["vision_config"] = std::move(vision);
}

template <const VisionFamily& f>
ModelWeights list_model(const ModelSpec& spec) {
  return list_with(f, spec);
}

// Qwen2-VL, 2.5 and 3: images of any size on a grid, rotary positions in two dimensions, 2 x 2 patches to a token. 2.5
// has RMS norms, a gated MLP and windows; 3 has a position table too, and mergers in the middle (deepstack). The bounds
// of an image's area stand in the models' preprocessor_config.json: 3,136 to 12,845,056 pixels, of Qwen3-VL 65,536 to
// 16,777,216.

constexpr IntRange kPatchRange{1, 1 << 10};

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

void write_grid(const VisionSpec& v, json& vision, const char* width_key) {
  vision["depth"] = v.num_layers;
  vision[width_key] = v.hidden_size;
  vision["num_heads"] = v.num_heads;
  vision["patch_size"] = v.patch_size;
  vision["temporal_patch_size"] = v.temporal_patch_size;
  vision["spatial_merge_size"] = v.merge;
}

void read_qwen2_vl(Fields&, Fields& vision, VisionSpec& v) {
  read_grid(vision, v, 14, "embed_dim");
  v.intermediate_size = v.hidden_size * vision.optional_integer("mlp_ratio", {1, 64}).value_or(4);
}

void write_qwen2_vl(const ModelSpec& spec, json&, json& vision) {
  write_grid(spec.vision, vision, "embed_dim");
  vision["mlp_ratio"] = spec.vision.intermediate_size / spec.vision.hidden_size;
}

void read_qwen25_vl(Fields&, Fields& vision, VisionSpec& v) {
  read_grid(vision, v, 14, "hidden_size");
  v.intermediate_size = vision.optional_integer("intermediate_size", kFfnRange).value_or(3420);
  const std::int64_t side = vision.optional_integer("window_size", {1, 1 << 16}).value_or(112) / v.patch_size;
  v.window = side * side;
  v.full_layers = read_layers(vision, "fullatt_block_indexes", {7, 15, 23, 31});
  v.is_rms = v.is_gated = true;
}

void write_qwen25_vl(const ModelSpec& spec, json&, json& vision) {
  const VisionSpec& v = spec.vision;
  write_grid(v, vision, "hidden_size");
  vision["intermediate_size"] = v.intermediate_size;
  std::int64_t side = 1;
  while (side * side < v.window) ++side;
  vision["window_size"] = side * v.patch_size;
  vision["fullatt_block_indexes"] = v.full_layers;
}

void read_qwen3_vl(Fields&, Fields& vision, VisionSpec& v) {
  read_grid(vision, v, 16, "hidden_size");
  v.intermediate_size = vision.integer("intermediate_size", kFfnRange);
  v.learned_positions = vision.optional_integer("num_position_embeddings", kPositionRange).value_or(2304);
  v.deepstack_layers = read_layers(vision, "deepstack_visual_indexes", {8, 16, 24});
  v.min_pixels = 65'536, v.max_pixels = 16'777'216;
}

void write_qwen3_vl(const ModelSpec& spec, json&, json& vision) {
  write_grid(spec.vision, vision, "hidden_size");
  vision["intermediate_size"] = spec.vision.intermediate_size;
  vision["num_position_embeddings"] = spec.vision.learned_positions;
  vision["deepstack_visual_indexes"] = spec.vision.deepstack_layers;
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

Tensors qwen_block(const VisionSpec& v) {
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

constexpr VisionFamily kQwen2Parts{&kQwen2,       "model.",       "visual.",  "blocks.{}.", "visual.merger.",
                                   read_qwen2_vl, write_qwen2_vl, qwen_block, add_qwen_ends};
constexpr VisionFamily kQwen25Parts{&kQwen2,        "model.",        "visual.",  "blocks.{}.", "visual.merger.",
                                    read_qwen25_vl, write_qwen25_vl, qwen_block, add_qwen_ends};
constexpr VisionFamily kQwen3Parts{
    &kQwen3,       "model.language_model.", "model.visual.", "blocks.{}.", "model.visual.merger.",
    read_qwen3_vl, write_qwen3_vl,          qwen_block,      add_qwen_ends};
constexpr VisionFamily kQwen3MoeParts{
    &kQwen3Moe,    "model.language_model.", "model.visual.", "blocks.{}.", "model.visual.merger.",
    read_qwen3_vl, write_qwen3_vl,          qwen_block,      add_qwen_ends};
constexpr VisionFamily kQwen35Parts{&kQwen35Text,           "model.language_model.", "model.visual.", "blocks.{}.",
                                    "model.visual.merger.", read_qwen35_vision,      write_qwen3_vl,  qwen_block,
                                    add_qwen_ends};
constexpr VisionFamily kQwen35MoeParts{&kQwen35MoeText,        "model.language_model.", "model.visual.", "blocks.{}.",
                                       "model.visual.merger.", read_qwen35_vision,      write_qwen3_vl,  qwen_block,
                                       add_qwen_ends};

// SigLIP, CLIP and InternViT: images resized to a square, a learned table of positions.

struct SquareDefaults {
  std::int64_t hidden_size, num_layers, num_heads, intermediate_size, image_size, patch_size;
};

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

void write_square(const ModelSpec& spec, json&, json& vision) {
  const VisionSpec& v = spec.vision;
  vision = {{"hidden_size", v.hidden_size},       {"num_hidden_layers", v.num_layers},
            {"num_attention_heads", v.num_heads}, {"intermediate_size", v.intermediate_size},
            {"image_size", v.image_size},         {"patch_size", v.patch_size}};
}

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

Tensors siglip_block(const VisionSpec& v) {
  return square_block(v, {{"layer_norm1", "layer_norm2"},
                          {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"}});
}

constexpr const char* kSiglipTower = "vision_tower.vision_model.";

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

void write_gemma3_vision(const ModelSpec& spec, json& config, json& vision) {
  write_square(spec, config, vision);
  config["mm_tokens_per_image"] = image_grid(spec.vision, 1, 1).tokens;
}

void add_gemma3_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  const std::string tower = kSiglipTower;
  add_patches(weights.before, v, tower + "embeddings.patch_embedding", true);
  add_table(weights.before, tower + "embeddings.position_embedding.weight", {v.learned_positions, v.hidden_size});
  projector.push_back({.name = "mm_input_projection_weight",
                       .shape = {v.hidden_size, spec.hidden_size},
                       .role = WeightRole::Stacked,
                       .in = v.hidden_size,
                       .out = spec.hidden_size,
                       .slot = LinearSlot::MergeUp});
  add_norm(projector, "mm_soft_emb_norm", v.hidden_size);
  add_layer_norm(weights.after, tower + "post_layernorm", v.hidden_size);
}

constexpr VisionFamily kGemma3Parts{
    &kGemma3Text,       "language_model.model.", kSiglipTower, "encoder.layers.{}.", "multi_modal_projector.",
    read_gemma3_vision, write_gemma3_vision,     siglip_block, add_gemma3_ends};

// LLaVA 1.5: CLIP's ViT-L at 336 x 336. A class token takes part in the tower and is left out behind it: 576 tokens.

void read_llava(Fields& config, Fields& vision, VisionSpec& v) {
  if (const auto type = vision.optional_text("model_type"); type && *type != "clip_vision_model")
    config.report("vision_config", fmt::format("a tower '{}' is not modelled here, only CLIP's", *type));
  v.has_class_token = true;
  read_square(vision, v, {1024, 24, 16, 4096, 336, 14});
}

void add_clip_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  const std::string tower = kSiglipTower;
  add_table(weights.before, tower + "embeddings.class_embedding", {v.hidden_size});
  add_patches(weights.before, v, tower + "embeddings.patch_embedding", false);
  add_table(weights.before, tower + "embeddings.position_embedding.weight", {v.learned_positions, v.hidden_size});
  add_layer_norm(weights.before, tower + "pre_layrnorm", v.hidden_size);
  add_projector(projector, "linear_1", "linear_2", v.hidden_size, spec.hidden_size, spec.hidden_size);
  add_layer_norm(weights.after, tower + "post_layernorm", v.hidden_size);
}

constexpr VisionFamily kLlavaParts{nullptr,
                                   "language_model.model.",
                                   kSiglipTower,
                                   "encoder.layers.{}.",
                                   "multi_modal_projector.",
                                   read_llava,
                                   write_square,
                                   siglip_block,
                                   add_clip_ends};

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

void write_internvl(const ModelSpec& spec, json& config, json& vision) {
  write_square(spec, config, vision);
  config["downsample_ratio"] = 1.0 / double(spec.vision.merge);
}

Tensors internvl_block(const VisionSpec& v) {
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
    nullptr,       "language_model.model.", "vision_tower.", "encoder.layer.{}.", "multi_modal_projector.",
    read_internvl, write_internvl,          internvl_block,  add_internvl_ends};

}  // namespace

constinit const Family kQwen2Vl{.name = "qwen2_vl",
                                .model_type = "qwen2_vl",
                                .architecture = "Qwen2VLForConditionalGeneration",
                                .read = read_model<kQwen2Parts>,
                                .write = write_model<kQwen2Parts>,
                                .list = list_model<kQwen2Parts>};
constinit const Family kQwen25Vl{.name = "qwen2_5_vl",
                                 .model_type = "qwen2_5_vl",
                                 .architecture = "Qwen2_5_VLForConditionalGeneration",
                                 .read = read_model<kQwen25Parts>,
                                 .write = write_model<kQwen25Parts>,
                                 .list = list_model<kQwen25Parts>};
constinit const Family kQwen3Vl{.name = "qwen3_vl",
                                .model_type = "qwen3_vl",
                                .architecture = "Qwen3VLForConditionalGeneration",
                                .read = read_model<kQwen3Parts>,
                                .write = write_model<kQwen3Parts>,
                                .list = list_model<kQwen3Parts>};
constinit const Family kQwen3VlMoe{.name = "qwen3_vl_moe",
                                   .model_type = "qwen3_vl_moe",
                                   .architecture = "Qwen3VLMoeForConditionalGeneration",
                                   .read = read_model<kQwen3MoeParts>,
                                   .write = write_model<kQwen3MoeParts>,
                                   .list = list_model<kQwen3MoeParts>};
constinit const Family kQwen35{.name = "qwen3_5",
                               .model_type = "qwen3_5",
                               .architecture = "Qwen3_5ForConditionalGeneration",
                               .read = read_model<kQwen35Parts>,
                               .write = write_model<kQwen35Parts>,
                               .list = list_model<kQwen35Parts>};
constinit const Family kQwen35Moe{.name = "qwen3_5_moe",
                                  .model_type = "qwen3_5_moe",
                                  .architecture = "Qwen3_5MoeForConditionalGeneration",
                                  .read = read_model<kQwen35MoeParts>,
                                  .write = write_model<kQwen35MoeParts>,
                                  .list = list_model<kQwen35MoeParts>};
constinit const Family kGemma3{.name = "gemma3_vl",
                               .model_type = "gemma3",
                               .architecture = "Gemma3ForConditionalGeneration",
                               .read = read_model<kGemma3Parts>,
                               .write = write_model<kGemma3Parts>,
                               .list = list_model<kGemma3Parts>};
constinit const Family kLlava{.name = "llava",
                              .model_type = "llava",
                              .architecture = "LlavaForConditionalGeneration",
                              .read = read_model<kLlavaParts>,
                              .write = write_model<kLlavaParts>,
                              .list = list_model<kLlavaParts>};
constinit const Family kInternVl{.name = "internvl",
                                 .model_type = "internvl",
                                 .architecture = "InternVLForConditionalGeneration",
                                 .read = read_model<kInternVlParts>,
                                 .write = write_model<kInternVlParts>,
                                 .list = list_model<kInternVlParts>};

}  // namespace gpuplan
