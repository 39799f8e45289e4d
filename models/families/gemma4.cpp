// Gemma 4 (31B, 26B-A4B, E4B, E2B): Gemma 3's norms and windows; layers without a window have wider heads, fewer of
// them for keys, which are the values too in the larger models; the last layers of the E models take keys and values of
// earlier ones; experts stand beside a shared MLP (A4B); every layer of the E models adds a part of a second embedding.
// The tower pads every image to a fixed number of patches and makes a token of the mean of 3 x 3. The audio tower of
// the E models is not modelled, and its parameters are not counted. The unified form (12B) has no towers: what puts
// patches and sound beside the text is counted, images and sounds are not modelled. Source of names, shapes and
// defaults: transformers 5.x, configuration_gemma4.py, modular_gemma4.py, image_processing_gemma4.py,
// modular_gemma4_unified.py (5.10).
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/narrow.h"
#include "models/families/experts.h"
#include "models/families/vision.h"

namespace gpuplan {

void read_gemma_layer(Fields& config, ModelSpec& spec) {
  spec.norm = NormKind::GemmaRmsNorm;
  spec.norm_placement = NormPlacement::Sandwich;
  spec.qk_norm = QkNorm::PerHead;
  spec.has_value_norm = spec.scales_embedding = true;
  spec.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  if (config.optional_flag("attention_bias").value_or(false))
    config.report("attention_bias", "biases of attention are not modelled here");
  spec.sliding_window = config.optional_integer("sliding_window", kPositionRange).value_or(512);
}

namespace {

using nlohmann::json;

/// The windows are those of a fixed period, the last layer without one.
void read_layer_types(Fields& config, ModelSpec& spec) {
  constexpr std::int64_t kSlidingPeriod = 6;
  read_sliding_layers(config, spec, spec.num_hidden_layers - spec.num_hidden_layers / kSlidingPeriod);
  const json* types = config.find("layer_types");
  if (!types || config.has_problems()) return;
  for (std::int64_t i = 0; i < spec.num_hidden_layers; ++i)
    if (((*types)[std::size_t(i)] == "sliding_attention") != spec.has_window(i))
      return config.report("layer_types", "only full_attention in every layer of a fixed period is modelled");
}

void read_gemma4_experts(Fields& config, ModelSpec& spec) {
  if (!config.optional_flag("enable_moe_block").value_or(false)) return;
  read_experts(config, spec, "num_experts", "moe_intermediate_size", {}, "top_k_experts");
  spec.moe.shared_intermediate_size = spec.intermediate_size;
  spec.moe.has_branch_norms = true;
}

void read_gemma4(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 8,
                .num_key_value_heads = 4,
                .head_dim = 256,
                .vocab_size = 262144,
                .intermediate_size = 9216,
                .max_position_embeddings = 131072,
                .tie_word_embeddings = true});
  read_gemma_layer(config, spec);
  spec.caps_logits = config.optional_number("final_logit_softcapping").has_value();
  read_layer_types(config, spec);
  spec.global.head_dim = config.optional_integer("global_head_dim", kHeadRange).value_or(512);
  spec.global.keys_are_values = config.optional_flag("attention_k_eq_v").value_or(false);
  const auto stated = config.optional_integer("num_global_key_value_heads", kHeadRange);
  spec.global.num_key_value_heads = spec.global.keys_are_values && stated ? *stated : spec.num_key_value_heads;
  if (!config.has_problems() && spec.num_attention_heads % spec.global.num_key_value_heads != 0)
    config.report("num_global_key_value_heads", "does not divide the attention heads");
  if (!config.has_problems() && spec.num_attention_heads * spec.global.head_dim > kWidthRange.most)
    config.report("global_head_dim", "the heads are wider than can be counted");
  spec.num_shared_kv_layers = config.optional_integer("num_kv_shared_layers", {0, kLayerRange.most}).value_or(0);
  if (spec.num_shared_kv_layers >= std::max<std::int64_t>(1, spec.num_hidden_layers))
    config.report("num_kv_shared_layers", "leaves no layer with keys and values of its own");
  spec.doubles_shared_mlp =
      spec.num_shared_kv_layers > 0 && config.optional_flag("use_double_wide_mlp").value_or(false);
  spec.layer_embedding.width =
      config.optional_integer("hidden_size_per_layer_input", {0, kWidthRange.most}).value_or(256);
  if (spec.layer_embedding.is_present())
    spec.layer_embedding.vocab_size =
        config.optional_integer("vocab_size_per_layer_input", kVocabRange).value_or(262144);
  read_gemma4_experts(config, spec);
}

void add_gemma4_experts(Tensors& tensors, const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, experts = spec.moe.num_experts, width = spec.moe.intermediate_size;
  add_linear(tensors, LinearSlot::Router, "router.proj", hidden, experts);
  tensors.push_back({.name = "router.scale", .shape = {hidden}, .role = WeightRole::Norm});
  tensors.push_back({.name = "router.per_expert_scale", .shape = {experts}, .role = WeightRole::Bias});
  add_stacked_experts(tensors, LinearSlot::ExpertGateUp, "experts.gate_up_proj", experts, hidden, 2 * width);
  std::swap(tensors.back().shape[1], tensors.back().shape[2]);
  add_stacked_experts(tensors, LinearSlot::ExpertDown, "experts.down_proj", experts, width, hidden);
  std::swap(tensors.back().shape[1], tensors.back().shape[2]);
  for (const char* name :
       {"post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"})
    add_norm(tensors, name, hidden);
}

Tensors gemma4_layer(const ModelSpec& model, bool is_global, bool shares_kv) {
  const ModelSpec spec = is_global ? global_of(model) : model;
  const std::int64_t hidden = spec.hidden_size, own = spec.layer_embedding.width,
                     width = spec.intermediate_size * (shares_kv && spec.doubles_shared_mlp ? 2 : 1);
  const bool is_moe = spec.moe.is_present();
  Tensors layer;
  add_linear(layer, LinearSlot::Q, "self_attn.q_proj", hidden, spec.q_width());
  if (!shares_kv) {
    add_linear(layer, LinearSlot::K, "self_attn.k_proj", hidden, spec.kv_width());
    if (!(is_global && spec.global.keys_are_values))
      add_linear(layer, LinearSlot::V, "self_attn.v_proj", hidden, spec.kv_width());
  }
  add_linear(layer, LinearSlot::O, "self_attn.o_proj", spec.q_width(), hidden);
  add_norm(layer, "self_attn.q_norm", spec.head_dim);
  if (!shares_kv) add_norm(layer, "self_attn.k_norm", spec.head_dim);
  add_linear(layer, is_moe ? LinearSlot::SharedGate : LinearSlot::Gate, "mlp.gate_proj", hidden, width);
  add_linear(layer, is_moe ? LinearSlot::SharedUp : LinearSlot::Up, "mlp.up_proj", hidden, width);
  add_linear(layer, is_moe ? LinearSlot::SharedDown : LinearSlot::Down, "mlp.down_proj", width, hidden);
  if (is_moe) add_gemma4_experts(layer, spec);
  for (const char* name :
       {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
    add_norm(layer, name, hidden);
  if (own > 0) {
    add_linear(layer, LinearSlot::LayerGate, "per_layer_input_gate", hidden, own);
    add_linear(layer, LinearSlot::LayerOut, "per_layer_projection", own, hidden);
    add_norm(layer, "post_per_layer_input_norm", hidden);
  }
  layer.push_back({.name = "layer_scalar", .shape = {1}, .role = WeightRole::Bias});  // a buffer
  return layer;
}

ModelWeights list_gemma4(const ModelSpec& spec) {
  ModelWeights weights;
  for (std::int64_t i = 0; i < spec.num_hidden_layers; ++i) {
    const bool is_global = !spec.has_window(i), shares_kv = i >= spec.num_hidden_layers - spec.num_shared_kv_layers;
    const char* name = shares_kv   ? is_global ? "full layer with earlier keys" : "windowed layer with earlier keys"
                       : is_global ? "full layer"
                                   : "windowed layer";
    auto kind = std::ranges::find_if(weights.kinds,
                                     [&](const LayerKind& known) { return std::string_view(known.name) == name; });
    if (kind == weights.kinds.end())
      kind = weights.kinds.insert(kind, {.name = name,
                                         .prefix = "model.layers.{}.",
                                         .tensors = gemma4_layer(spec, is_global, shares_kv),
                                         .is_moe = spec.moe.is_present(),
                                         .is_global = is_global});
    weights.order.push_back(narrow<std::uint8_t>(kind - weights.kinds.begin()));
  }
  add_embedding(weights, spec, "model.embed_tokens");
  if (const LayerEmbedding& own = spec.layer_embedding; own.is_present()) {
    const std::int64_t all = own.width * spec.num_hidden_layers;
    weights.before.push_back(
        {.name = "model.embed_tokens_per_layer.weight", .shape = {own.vocab_size, all}, .role = WeightRole::Embedding});
    add_linear(weights.before, LinearSlot::None, "model.per_layer_model_projection", spec.hidden_size, all);
    add_norm(weights.before, "model.per_layer_projection_norm", own.width);
  }
  add_norm_of(weights.after, spec, "model.norm");
  add_head(weights, spec);
  return weights;
}

// The unified form.

void read_gemma4_unified(Fields& config, ModelSpec& spec) {
  Fields text = config.fields("text_config");
  read_gemma4(text, spec);
  spec.layer_embedding = {};  // "PLE is not used"
  // Of the published model; another one has other sizes and is not known.
  const auto check = [&](const char* part, std::initializer_list<std::pair<const char*, std::int64_t>> known) {
    auto fields = config.optional_fields(part);
    if (!fields) return;
    for (const auto& [key, size] : known)
      if (const auto own = fields->optional_integer(key); own && *own != size)
        fields->report(key, fmt::format("only the published size, {}, is known", size));
  };
  check("vision_config",
        {{"mm_embed_dim", 3840}, {"mm_posemb_size", 1120}, {"model_patch_size", 48}, {"output_proj_dims", 3840}});
  check("audio_config", {{"audio_embed_dim", 640}, {"output_proj_dims", 640}});
}

ModelWeights list_gemma4_unified(const ModelSpec& spec) {
  constexpr std::int64_t kPatch = 48 * 48 * 3, kWidth = 3840, kPositions = 1120, kSound = 640;
  ModelWeights weights = list_gemma4(spec);
  const auto under_language_model = [](const std::string& name) { return "model.language_" + name; };
  for (LayerKind& kind : weights.kinds) kind.prefix = under_language_model(kind.prefix);
  for (Tensors* tensors : {&weights.before, &weights.after})
    for (WeightTensor& tensor : *tensors)
      if (tensor.name.starts_with("model.")) tensor.name = under_language_model(tensor.name);
  const auto add = [&](const char* name, std::int64_t elements) {
    weights.before.push_back(
        {.name = name, .shape = {elements}, .role = WeightRole::Position, .part = ModelPart::Idle});
  };
  // two LayerNorms beside a Linear with biases, positions in x and y, and their LayerNorm
  add("model.vision_embedder", 2 * kPatch + (kPatch + 1) * kWidth + 2 * kWidth + 2 * kPositions * kWidth + 2 * kWidth);
  add("model.embed_vision", kWidth * spec.hidden_size);
  add("model.embed_audio", kSound * spec.hidden_size);
  return weights;
}

// The tower.

constexpr std::int64_t kImageTokens = 280;  // max_soft_tokens of the image processor

void read_gemma4_vision(Fields&, Fields& vision, VisionSpec& v) {
  v.hidden_size = vision.optional_integer("hidden_size", kWidthRange).value_or(768);
  v.num_layers = vision.optional_integer("num_hidden_layers", kLayerRange).value_or(16);
  v.num_heads = vision.optional_integer("num_attention_heads", kHeadRange).value_or(12);
  v.intermediate_size = vision.optional_integer("intermediate_size", kFfnRange).value_or(3072);
  v.patch_size = vision.optional_integer("patch_size", kPatchRange).value_or(16);
  v.merge = vision.optional_integer("pooling_kernel_size", {1, 16}).value_or(3);
  v.learned_positions = vision.optional_integer("position_embedding_size", kPositionRange).value_or(10240);
  v.standardises = vision.optional_flag("standardize").value_or(false);
  v.is_clipped = vision.optional_flag("use_clipped_linears").value_or(false);
  if (v.num_heads > 0 &&
      vision.optional_integer("head_dim", kHeadRange).value_or(v.hidden_size / v.num_heads) * v.num_heads !=
          v.hidden_size)
    vision.report("head_dim", "heads that do not fill the tower's width are not modelled");
  v.rule = ImageRule::Budget;
  v.max_pixels = kImageTokens * v.merge * v.merge * v.patch_size * v.patch_size;
  v.is_rms = v.is_gated = v.is_rotary = v.has_branch_norms = v.merges_by_mean = v.is_wrapped = true;
}

Tensors gemma4_block(const VisionSpec& v, std::int64_t) {
  Tensors block;
  const std::int64_t width = v.hidden_size, ffn = v.intermediate_size;
  const auto add = [&](LinearSlot slot, const std::string& name, std::int64_t in, std::int64_t out) {
    add_linear(block, slot, name + ".linear", in, out);
    if (!v.is_clipped) return;
    for (const char* bound : {".input_min", ".input_max", ".output_min", ".output_max"})  // buffers
      block.push_back({.name = name + bound, .shape = {}, .role = WeightRole::Bias});
  };
  add(LinearSlot::Q, "self_attn.q_proj", width, width);
  add(LinearSlot::K, "self_attn.k_proj", width, width);
  add(LinearSlot::V, "self_attn.v_proj", width, width);
  add(LinearSlot::O, "self_attn.o_proj", width, width);
  add_norm(block, "self_attn.q_norm", width / v.num_heads);
  add_norm(block, "self_attn.k_norm", width / v.num_heads);
  add(LinearSlot::Gate, "mlp.gate_proj", width, ffn);
  add(LinearSlot::Up, "mlp.up_proj", width, ffn);
  add(LinearSlot::Down, "mlp.down_proj", ffn, width);
  for (const char* name :
       {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
    add_norm(block, name, width);
  return block;
}

void add_gemma4_ends(ModelWeights& weights, Tensors& projector, const ModelSpec& spec) {
  const VisionSpec& v = spec.vision;
  const std::string tower = "model.vision_tower.";
  add_table(weights.before, tower + "patch_embedder.input_proj.weight", {v.hidden_size, v.patch_elements()});
  add_table(weights.before, tower + "patch_embedder.position_embedding_table", {2, v.learned_positions, v.hidden_size});
  if (v.standardises) {  // buffers
    add_table(weights.after, tower + "std_bias", {v.hidden_size});
    add_table(weights.after, tower + "std_scale", {v.hidden_size});
  }
  add_linear(projector, LinearSlot::MergeUp, "embedding_projection", v.hidden_size, spec.hidden_size);
}

constexpr VisionFamily kGemma4Parts{&kGemma4Text,         "model.language_model.", "model.vision_tower.",
                                    "encoder.layers.{}.", "model.embed_vision.",   read_gemma4_vision,
                                    gemma4_block,         add_gemma4_ends};

}  // namespace

constinit const Family kGemma4Text{.name = "gemma4_text",
                                   .model_type = "gemma4_text",
                                   .architecture = "Gemma4ForCausalLM",
                                   .read = read_gemma4,
                                   .list = list_gemma4};
constinit const Family kGemma4Unified{.name = "gemma4_unified",
                                      .model_type = "gemma4_unified",
                                      .architecture = "Gemma4UnifiedForConditionalGeneration",
                                      .read = read_gemma4_unified,
                                      .list = list_gemma4_unified};
constinit const Family kGemma4 = vision_row<kGemma4Parts>("gemma4", "gemma4", "Gemma4ForConditionalGeneration");

}  // namespace gpuplan
