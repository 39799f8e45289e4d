// Qwen2-VL, 2.5 and 3: images of any size on a grid, rotary positions in two dimensions, 2 x 2 patches to a token. 2.5
// has RMS norms, a gated MLP and windows; 3 has a position table too, and mergers in the middle (deepstack). The bounds
// of an image's area stand in the models' preprocessor_config.json: 3,136 to 12,845,056 pixels, of Qwen3-VL 65,536 to
// 16,777,216.
// Qwen2.5-Omni and Qwen3-Omni: the thinker of each is such a model, with a tower that hears beside it; what speaks (the
// talker, and what makes a wave of its tokens) stands beside the thinker and is trained by nobody here.
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

// Omni. Tokens of images and sounds are part of the sequence; the tower that hears is loaded and its work not counted.

Tensors qwen_omni_block(const VisionSpec& v, std::int64_t layer) {
  Tensors block = qwen_block(v, layer);
  std::erase_if(block, [](const WeightTensor& t) { return t.name.starts_with("attn.qkv"); });
  for (const auto& [slot, name] :
       {std::pair{LinearSlot::Q, "attn.q"}, {LinearSlot::K, "attn.k"}, {LinearSlot::V, "attn.v"}})
    add_linear(block, slot, name, v.hidden_size, v.hidden_size, true);
  return block;
}

void add_qwen25_omni_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  add_patches(weights.before, v, "thinker.visual.patch_embed.proj", false);
  const std::int64_t wide = v.hidden_size * v.merge * v.merge;
  add_tower_norm(projector, v, "ln_q");
  add_projector(projector, "mlp.0", "mlp.2", wide, wide, spec.hidden_size);
}

void add_qwen3_omni_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  add_patches(weights.before, v, "thinker.visual.patch_embed.proj", true);
  add_table(weights.before, "thinker.visual.pos_embed.weight", {v.learned_positions, v.hidden_size});
  const std::int64_t wide = v.hidden_size * v.merge * v.merge;
  add_tower_norm(projector, v, "ln_q");
  add_projector(projector, "mlp.0", "mlp.2", wide, wide, spec.hidden_size);
}

constexpr VisionFamily kQwen25OmniParts{.text = &kQwen2,
                                        .language = "thinker.model.",
                                        .tower = "thinker.visual.",
                                        .blocks = "blocks.{}.",
                                        .projector = "thinker.visual.merger.",
                                        .read = read_qwen25_vl,
                                        .block = qwen_omni_block,
                                        .add_ends = add_qwen25_omni_ends,
                                        .beside = "thinker."};
constexpr VisionFamily kQwen3OmniParts{.text = &kQwen3Moe,
                                       .language = "thinker.model.",
                                       .tower = "thinker.visual.",
                                       .blocks = "blocks.{}.",
                                       .projector = "thinker.visual.merger.",
                                       .read = read_qwen3_vl,
                                       .block = qwen_block,
                                       .add_ends = add_qwen3_omni_ends,
                                       .beside = "thinker.",
                                       .deepstack = "/thinker.visual.merger_list.{}.",
                                       .merger_norm = "ln_q",
                                       .merger_up = "mlp.0",
                                       .merger_down = "mlp.2"};

/// Sizes of a tower that hears, an encoder like Whisper's.
struct AudioTower {
  std::int64_t width, layers, ffn, bins, out;

  std::int64_t norm() const { return 2 * width; }
  /// Attention, MLP and two norms; of the four projections `num_biases` have a bias.
  std::int64_t block(std::int64_t num_biases) const {
    return 4 * width * width + num_biases * width + 2 * width * ffn + ffn + width + 2 * norm();
  }
};

AudioTower read_audio(Fields& thinker) {
  auto audio = thinker.optional_fields("audio_config");
  const auto size = [&](const char* key, IntRange range, std::int64_t otherwise) {
    return audio ? audio->optional_integer(key, range).value_or(otherwise) : otherwise;
  };
  return {size("d_model", kWidthRange, 1280), size("encoder_layers", kLayerRange, 32),
          size("encoder_ffn_dim", kFfnRange, 5120), size("num_mel_bins", kHeadRange, 128),
          size("output_dim", kWidthRange, 3584)};
}

/// Two convolutions of three, blocks without a bias on keys, a norm, a projection, and two marks around a sound.
std::int64_t qwen25_audio_parameters(const AudioTower& a) {
  return 3 * a.bins * a.width + a.width + 3 * a.width * a.width + a.width + a.layers * a.block(3) + a.norm() +
         a.width * a.out + a.out + 2 * a.out;
}

/// Three convolutions of 3 x 3 over 480 channels that halve the bins each, a linear, blocks, a norm, two projections.
std::int64_t qwen3_audio_parameters(const AudioTower& a, std::int64_t channels) {
  const std::int64_t bins = (((a.bins + 1) / 2 + 1) / 2 + 1) / 2;
  return 9 * channels + channels + 2 * (9 * channels * channels + channels) + bins * channels * a.width +
         a.layers * a.block(4) + a.norm() + a.width * a.width + a.width + a.width * a.out + a.out;
}

/// The published models' ends alone are known: 10,732,225,440 parameters of Qwen2.5-Omni-7B less thinker and talker,
/// and 35,259,818,545 of Qwen3-Omni-30B-A3B-Instruct less its thinker, 31,719,205,488 as the other two of them have it.
constexpr std::int64_t kToken2Wav = 449'051'296, kTalkerAndCode2Wav = 3'540'613'057;

/// The talker of Qwen2.5-Omni: Qwen2's layers, an embedding of another width, and a projection between them.
std::int64_t qwen25_talker_parameters(Fields& t) {
  const std::int64_t hidden = t.optional_integer("hidden_size", kWidthRange).value_or(3584),
                     layers = t.optional_integer("num_hidden_layers", kLayerRange).value_or(28),
                     head = t.optional_integer("head_dim", kHeadRange).value_or(128),
                     q = head * t.optional_integer("num_attention_heads", kHeadRange).value_or(28),
                     kv = head * t.optional_integer("num_key_value_heads", kHeadRange).value_or(4),
                     ffn = t.optional_integer("intermediate_size", kFfnRange).value_or(18944),
                     vocab = t.optional_integer("vocab_size", kVocabRange).value_or(8448),
                     embedding = t.optional_integer("embedding_size", kWidthRange).value_or(3584);
  const std::int64_t layer = 2 * hidden * q + q + 2 * (hidden * kv + kv) + 3 * hidden * ffn + 2 * hidden;
  return layers * layer + hidden + vocab * embedding + vocab * hidden + embedding * hidden + hidden;
}

/// Counts the parameters that make speech, which are loaded unless the config says otherwise.
std::int64_t read_qwen25_speech(Fields& config) {
  if (!config.optional_flag("enable_audio_output").value_or(true)) return 0;
  auto talker = config.optional_fields("talker_config");
  return talker ? qwen25_talker_parameters(*talker) + kToken2Wav : 0;
}

std::int64_t read_qwen3_speech(Fields& config) {
  if (!config.optional_flag("enable_audio_output").value_or(true)) return 0;
  auto talker = config.optional_fields("talker_config");
  auto text = talker ? talker->optional_fields("text_config") : std::nullopt;
  if (!text) return 0;
  if (text->optional_integer("hidden_size", kWidthRange).value_or(1024) != 1024 ||
      text->optional_integer("num_hidden_layers", kLayerRange).value_or(20) != 20)
    text->report("hidden_size", "only the published talker, 20 layers of 1024, is known");
  return kTalkerAndCode2Wav;
}

template <const VisionFamily& parts>
void read_omni(Fields& config, ModelSpec& spec, std::int64_t (*hears)(Fields& thinker),
               std::int64_t (*speaks)(Fields& config)) {
  Fields thinker = config.fields("thinker_config");
  read_with_tower(thinker, spec, parts);
  spec.tie_word_embeddings = false;  // the thinker's head is a module of its own, whatever text_config says
  spec.idle_parameters = hears(thinker) + speaks(config);
}

void read_qwen25_omni(Fields& config, ModelSpec& spec) {
  read_omni<kQwen25OmniParts>(
      config, spec, [](Fields& thinker) { return qwen25_audio_parameters(read_audio(thinker)); }, read_qwen25_speech);
}

void read_qwen3_omni(Fields& config, ModelSpec& spec) {
  read_omni<kQwen3OmniParts>(
      config, spec,
      [](Fields& thinker) {
        auto audio = thinker.optional_fields("audio_config");
        return qwen3_audio_parameters(
            read_audio(thinker),
            audio ? audio->optional_integer("downsample_hidden_size", kWidthRange).value_or(480) : 480);
      },
      read_qwen3_speech);
}

template <const VisionFamily& parts>
ModelWeights list_omni(const ModelSpec& spec) {
  ModelWeights weights = list_with_tower(spec, parts);
  add_idle(weights, spec, "what hears and speaks");
  return weights;
}

}  // namespace

constinit const Family kQwen25Omni{.name = "qwen2_5_omni",
                                   .model_type = "qwen2_5_omni",
                                   .architecture = "Qwen2_5OmniForConditionalGeneration",
                                   .other_architecture = "Qwen2_5OmniModel",
                                   .read = read_qwen25_omni,
                                   .list = list_omni<kQwen25OmniParts>};
constinit const Family kQwen3Omni{.name = "qwen3_omni_moe",
                                  .model_type = "qwen3_omni_moe",
                                  .architecture = "Qwen3OmniMoeForConditionalGeneration",
                                  .read = read_qwen3_omni,
                                  .list = list_omni<kQwen3OmniParts>};
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
