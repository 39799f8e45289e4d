// Gemma 3n (E4B, E2B): Gemma 3's norms and windows around several streams, of which a layer works on one (AltUp), a
// low-rank branch beside attention (LAuReL), and a part of a second embedding in every layer; the first layers keep the
// largest values of their gates alone, the last ones take keys and values of earlier layers. The towers (MobileNet-v5,
// and a conformer for sound) are loaded with the model and counted; images and sounds are not modelled. Source of
// names, shapes and defaults: transformers 5.x, configuration_gemma3n.py and modular_gemma3n.py.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/narrow.h"
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::int64_t kPeriod = 5;         // every fifth layer has no window
constexpr std::int64_t kSparseLayers = 10;  // where the config names none

/// The first layers with a sparsity above 0.
void read_sparse_layers(Fields& config, ModelSpec& spec) {
  const std::int64_t layers = spec.num_hidden_layers;
  spec.altup.num_sparse_layers = layers > kSparseLayers ? kSparseLayers : 0;
  const json* pattern = config.find("activation_sparsity_pattern");
  if (!pattern || config.has_problems()) return;
  const auto is_share = [](const json& share) { return share.is_number() && share >= 0 && share < 1; };
  if (!pattern->is_array() || std::ssize(*pattern) != layers || !std::ranges::all_of(*pattern, is_share))
    return config.report("activation_sparsity_pattern",
                         fmt::format("must list a share below 1 for each of the {} layers", layers));
  const auto dense = std::find_if(pattern->begin(), pattern->end(), [](const json& share) { return share == 0; });
  spec.altup.num_sparse_layers = dense - pattern->begin();
  if (!std::all_of(dense, pattern->end(), [](const json& share) { return share == 0; }))
    config.report("activation_sparsity_pattern", "only sparse layers before all others are modelled");
}

void read_text(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 8,
                .num_key_value_heads = 2,
                .head_dim = 256,
                .vocab_size = 262400,
                .intermediate_size = 16384,
                .max_position_embeddings = 32768,
                .tie_word_embeddings = true});
  read_gemma_layer(config, spec);
  spec.caps_logits = !config.has("final_logit_softcapping") || config.optional_number("final_logit_softcapping");
  read_sliding_layers(config, spec, spec.num_hidden_layers - spec.num_hidden_layers / kPeriod);
  spec.num_shared_kv_layers = config.optional_integer("num_kv_shared_layers", {0, kLayerRange.most}).value_or(15);
  if (spec.num_shared_kv_layers >= std::max<std::int64_t>(1, spec.num_hidden_layers))
    config.report("num_kv_shared_layers", "leaves no layer with keys and values of its own");
  spec.layer_embedding.width = config.optional_integer("hidden_size_per_layer_input", kWidthRange).value_or(256);
  spec.layer_embedding.vocab_size = config.optional_integer("vocab_size_per_layer_input", kVocabRange).value_or(262144);
  spec.altup.num_streams = config.optional_integer("altup_num_inputs", {2, 64}).value_or(4);
  spec.altup.laurel_rank = config.optional_integer("laurel_rank", kWidthRange).value_or(64);
  if (!config.has_problems() && spec.stream_width() > kWidthRange.most)
    config.report("altup_num_inputs", fmt::format("the streams are wider than {} together", kWidthRange.most));
  read_sparse_layers(config, spec);
}

/// A list of widths that are all alike as one number, which is how both published sizes are meant.
json with_one_width(json text) {
  json& width = text["intermediate_size"];
  if (width.is_null())
    text.erase("intermediate_size");
  else if (width.is_array() && !width.empty() &&
           std::ranges::all_of(width, [&](const json& w) { return w == width[0]; }))
    width = json(width[0]);
  return text;
}

/// The sizes of the towers are those of the two published models.
void check_towers(Fields& config) {
  if (auto vision = config.optional_fields("vision_config"))
    if (const auto name = vision->optional_text("architecture"); name && *name != "mobilenetv5_300m_enc")
      vision->report("architecture", "of the vision towers only mobilenetv5_300m_enc is known");
  auto audio = config.optional_fields("audio_config");
  if (!audio) return;
  for (const auto& [key, known] : {std::pair{"hidden_size", 1536}, std::pair{"conf_num_hidden_layers", 12}})
    if (const auto size = audio->optional_integer(key); size && *size != known)
      audio->report(key, fmt::format("of the audio towers only one with {} is known", known));
}

void read_gemma3n(Fields& config, ModelSpec& spec) {
  check_towers(config);
  const json* nested = config.find("text_config");
  if (!nested || !nested->is_object()) return void(config.fields("text_config"));  // says what it must be
  if (const auto width = nested->find("intermediate_size");
      width != nested->end() && width->is_array() && with_one_width(*nested)["intermediate_size"].is_array())
    return config.report("text_config.intermediate_size", "layers of different widths are not modelled");
  const json one_width = with_one_width(*nested);
  Fields text = config.fields_as("text_config", one_width);
  read_text(text, spec);
}

Tensors gemma3n_layer(const ModelSpec& spec, bool shares_kv) {
  const std::int64_t hidden = spec.hidden_size, own = spec.layer_embedding.width, streams = spec.altup.num_streams,
                     rank = spec.altup.laurel_rank;
  Tensors layer;
  add_linear(layer, LinearSlot::Q, "self_attn.q_proj", hidden, spec.q_width());
  if (!shares_kv) {
    add_linear(layer, LinearSlot::K, "self_attn.k_proj", hidden, spec.kv_width());
    add_linear(layer, LinearSlot::V, "self_attn.v_proj", hidden, spec.kv_width());
  }
  add_linear(layer, LinearSlot::O, "self_attn.o_proj", spec.q_width(), hidden);
  add_norm(layer, "self_attn.q_norm", spec.head_dim);
  if (!shares_kv) add_norm(layer, "self_attn.k_norm", spec.head_dim);
  add_gated_mlp(layer, spec);
  for (const char* name :
       {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
    add_norm(layer, name, hidden);
  layer.push_back({.name = "altup.correct_output_scale", .shape = {hidden}, .role = WeightRole::Norm});
  add_linear(layer, LinearSlot::StreamCorrect, "altup.correction_coefs", streams, streams);
  add_linear(layer, LinearSlot::StreamPredict, "altup.prediction_coefs", streams, streams * streams);
  add_linear(layer, LinearSlot::StreamRouter, "altup.modality_router", hidden, streams);
  add_norm(layer, "altup.router_norm", hidden);
  add_linear(layer, LinearSlot::BranchDown, "laurel.linear_left", hidden, rank);
  add_linear(layer, LinearSlot::BranchUp, "laurel.linear_right", rank, hidden);
  add_norm(layer, "laurel.post_laurel_norm", hidden);
  add_linear(layer, LinearSlot::LayerGate, "per_layer_input_gate", hidden, own);
  add_linear(layer, LinearSlot::LayerOut, "per_layer_projection", own, hidden);
  add_norm(layer, "post_per_layer_input_norm", hidden);
  return layer;
}

/// One [hidden, hidden] for every stream but the first.
void add_stream_projections(Tensors& tensors, const ModelSpec& spec, const char* name) {
  add_linear(tensors, LinearSlot::None, name, spec.hidden_size, spec.hidden_size);
  tensors.back().copies = spec.altup.num_streams - 1;
}

// What is left of both published totals (5,439,438,272 of E2B-it, 7,849,978,192 of E4B-it, huggingface.co/api/models
// with expand[]=safetensors, as recorded in public notes) after every other tensor, to the last one: MobileNet-v5.
constexpr std::int64_t kVisionTower = 294126912;
// Of modular_gemma3n.py's Gemma3nAudioEncoder with the sizes of Gemma3nAudioConfig: 12 conformer blocks of 56,644,800
// (two MLPs of 18,877,440, attention of 14,159,040, a convolution of 7,090,176, a norm), and 1,611,040 that shorten
// the sound.
constexpr std::int64_t kAudioTower = 12 * 56644800 + 1611040;

/// Towers, and the table, norms and Linear that put each one's features beside the text.
void add_idle_towers(Tensors& tensors, const ModelSpec& spec) {
  const auto add = [&](const char* name, std::int64_t elements) {
    tensors.push_back({.name = name, .shape = {elements}, .role = WeightRole::Position, .part = ModelPart::Idle});
  };
  const auto embedder = [&](std::int64_t width) { return (128 + 2 + spec.hidden_size) * width; };
  add("model.vision_tower", kVisionTower);
  add("model.embed_vision", embedder(2048));
  add("model.audio_tower", kAudioTower);
  add("model.embed_audio", embedder(1536));
}

ModelWeights list_gemma3n(const ModelSpec& spec) {
  ModelWeights weights;
  for (std::int64_t i = 0; i < spec.num_hidden_layers; ++i) {
    const bool is_sparse = i < spec.altup.num_sparse_layers,
               shares_kv = i >= spec.num_hidden_layers - spec.num_shared_kv_layers;
    const char* name = shares_kv   ? is_sparse ? "sparse layer with earlier keys" : "layer with earlier keys"
                       : is_sparse ? "sparse layer"
                                   : "layer";
    auto kind = std::ranges::find_if(weights.kinds,
                                     [&](const LayerKind& known) { return std::string_view(known.name) == name; });
    if (kind == weights.kinds.end())
      kind = weights.kinds.insert(kind, {.name = name,
                                         .prefix = "model.language_model.layers.{}.",
                                         .tensors = gemma3n_layer(spec, shares_kv),
                                         .is_sparse = is_sparse});
    weights.order.push_back(narrow<std::uint8_t>(kind - weights.kinds.begin()));
  }
  const LayerEmbedding& own = spec.layer_embedding;
  const std::int64_t all = own.width * spec.num_hidden_layers;
  add_embedding(weights, spec, "model.language_model.embed_tokens");
  weights.before.push_back({.name = "model.language_model.embed_tokens_per_layer.weight",
                            .shape = {own.vocab_size, all},
                            .role = WeightRole::Embedding});
  add_linear(weights.before, LinearSlot::None, "model.language_model.per_layer_model_projection", spec.hidden_size,
             all);
  add_norm(weights.before, "model.language_model.per_layer_projection_norm", own.width);
  add_stream_projections(weights.before, spec, "model.language_model.altup_projections.{}");
  add_idle_towers(weights.before, spec);
  add_norm_of(weights.after, spec, "model.language_model.norm");
  add_stream_projections(weights.after, spec, "model.language_model.altup_unembed_projections.{}");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kGemma3n{.name = "gemma3n",
                                .model_type = "gemma3n",
                                .architecture = "Gemma3nForConditionalGeneration",
                                .read = read_gemma3n,
                                .list = list_gemma3n};

}  // namespace gpuplan
