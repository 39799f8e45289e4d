// Vision-language models: a vision tower and a projector in front of a language model of a known family. An image is
// cut into patches; the tower's blocks work on them; the projector turns them into rows of the language model's
// sequence.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/narrow.h"
#include "models/families.h"
#include "models/families/vision.h"

namespace gpuplan {
namespace {

using nlohmann::json;

Tensors of_part(Tensors tensors, ModelPart part) {
  for (WeightTensor& t : tensors) t.part = part;
  return tensors;
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

/// Sizes that the class of a text_config has where the config leaves them out, as older configs do.
json text_defaults(std::string_view type) {
  if (type == "llama")
    return {{"hidden_size", 4096},
            {"num_hidden_layers", 32},
            {"num_attention_heads", 32},
            {"intermediate_size", 11008},
            {"vocab_size", 32000}};
  if (type == "mllama_text_model")
    return {{"hidden_size", 4096},
            {"num_hidden_layers", 40},
            {"num_attention_heads", 32},
            {"num_key_value_heads", 8},
            {"intermediate_size", 14336},
            {"vocab_size", 128256},
            {"max_position_embeddings", 131072}};
  if (type == "mistral")
    return {{"hidden_size", 4096},      {"num_hidden_layers", 32},    {"num_attention_heads", 32},
            {"num_key_value_heads", 8}, {"intermediate_size", 14336}, {"vocab_size", 32000}};
  return json::object();
}

/// text_config, or the config itself where its keys stand at the top (Qwen2-VL's own files).
void read_language(Fields& config, ModelSpec& spec, const VisionFamily& f) {
  const json* nested = config.find(f.text_key);
  if (nested && !nested->is_object()) return void(config.fields(f.text_key));  // says what it must be
  if (!nested) {
    if (!f.text) return config.report(f.text_key, "is needed: it says what the language model is");
    spec.text_family = f.text->name;
    return f.text->read(config, spec);
  }
  const json* named = config.fields(f.text_key).find("model_type");
  const std::string type = named && named->is_string() ? named->get<std::string>() : "";
  const Family* text = f.text ? f.text : find_family(type, {});
  if (!text || (!f.text && type.empty()))
    return config.report(f.text_key, fmt::format("its model_type '{}' is not modelled", type));
  spec.text_family = text->name;
  json filled = text_defaults(type);
  filled.update(*nested);
  if (!filled.contains("tie_word_embeddings") && config.is_given("tie_word_embeddings"))
    filled["tie_word_embeddings"] = *config.find("tie_word_embeddings");
  Fields fields = config.fields_as(f.text_key, filled);
  text->read(fields, spec);
}

void check_tower(Fields& config, const VisionSpec& v) {
  if (config.has_problems()) return;
  if (v.hidden_size % v.num_heads != 0)
    return config.report("vision_config", fmt::format("{} heads do not divide {}", v.num_heads, v.hidden_size));
  const std::int64_t patches = v.patch_size > 0 ? v.image_size / v.patch_size : 0;
  const bool is_square = v.rule != ImageRule::Grid && v.rule != ImageRule::Budget;
  if (is_square && (patches < 1 || (patches % v.merge != 0 && !v.pads_merge)))
    config.report("vision_config", fmt::format("an image of {} is no grid of patches of {}, {} x {} merged",
                                               v.image_size, v.patch_size, v.merge, v.merge));
}

}  // namespace

void read_with_tower(Fields& config, ModelSpec& spec, const VisionFamily& f) {
  read_language(config, spec, f);
  auto vision = config.optional_fields("vision_config");
  if (!vision) return;  // the language model alone
  f.read(config, *vision, spec.vision);
  check_tower(config, spec.vision);
}

ModelWeights list_with_tower(const ModelSpec& spec, const VisionFamily& f) {
  ModelWeights weights = language_of(f, spec).list(spec);
  const VisionSpec& v = spec.vision;
  const std::string language = f.language;
  // the head stands beside the layers' module: "language_model.lm_head", or "lm_head" at the top
  const std::string beside = language.starts_with("language_model.") ? "language_model." : f.beside;
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

  const std::size_t num_text_kinds = weights.kinds.size();
  std::vector<std::uint8_t> order;
  const auto kind_of_block = [&](std::int64_t layer) {
    const bool is_windowed = v.is_windowed(layer), is_deepstack = v.is_deepstack(layer);
    Tensors tensors = of_part(f.block(v, layer), ModelPart::Tower);
    for (std::size_t k = num_text_kinds; k < weights.kinds.size(); ++k)
      if (weights.kinds[k].is_windowed == is_windowed && weights.kinds[k].makes_deepstack == is_deepstack &&
          weights.kinds[k].tensors.front().name == tensors.front().name)
        return narrow<std::uint8_t>(k);
    LayerKind kind{.name = is_windowed    ? "windowed vision block"
                           : is_deepstack ? "vision block with a deepstack merger"
                                          : "vision block",
                   .prefix = std::string(f.tower) + f.blocks,
                   .tensors = std::move(tensors),
                   .is_causal = false,
                   .part = ModelPart::Tower,
                   .is_windowed = is_windowed,
                   .makes_deepstack = is_deepstack};
    if (is_deepstack) {
      Tensors merger;
      const std::int64_t wide = v.hidden_size * v.merge * v.merge;
      const std::string name = f.deepstack;
      add_layer_norm(merger, name + f.merger_norm, wide);
      add_projector(merger, name + f.merger_up, name + f.merger_down, wide, wide, spec.hidden_size);
      for (WeightTensor& t : of_part(std::move(merger), ModelPart::Tower)) kind.tensors.push_back(std::move(t));
    }
    weights.kinds.push_back(std::move(kind));
    return narrow<std::uint8_t>(weights.kinds.size() - 1);
  };
  for (std::int64_t i = 0; i < v.num_layers; ++i) order.push_back(kind_of_block(i));
  order.push_back(narrow<std::uint8_t>(weights.kinds.size()));
  put_in_front(projector, f.projector);
  for (WeightTensor& t : projector)
    if (t.part == ModelPart::Language) t.part = ModelPart::Projector;
  for (WeightTensor& t : of_part(std::move(ends.after), ModelPart::Tower)) projector.push_back(std::move(t));
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
      used = narrow<std::uint8_t>(same - weights.kinds.begin());
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
      place[kind] = narrow<std::uint8_t>(sorted.size());
      sorted.push_back(weights.kinds[kind]);
    }
    kind = place[kind];
  }
  weights.kinds = std::move(sorted);
  return weights;
}

void add_idle(ModelWeights& weights, const ModelSpec& spec, const char* name) {
  if (spec.idle_parameters > 0)
    weights.before.push_back(
        {.name = name, .shape = {spec.idle_parameters}, .role = WeightRole::Position, .part = ModelPart::Idle});
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

void add_projector(Tensors& tensors, const std::string& first, const std::string& second, std::int64_t in,
                   std::int64_t middle, std::int64_t out) {
  add_linear(tensors, LinearSlot::MergeUp, first, in, middle, true);
  add_linear(tensors, LinearSlot::MergeDown, second, middle, out, true);
}

}  // namespace gpuplan
