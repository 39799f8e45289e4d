// Source: modelscope/ms-swift swift/tuners/llamapro.py (LLaMAPro.prepare_model), swift/arguments/tuner_args.py
// @3602360a.
#include "ecosystem/inserted_layers.h"

#include <array>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ecosystem/trained_parameters.h"
#include "models/hf_config.h"
#include "models/trained_names.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::int64_t kUsualNewLayers = 4;

/// The object of a config that says how many layers the language model has, and under which key; nullptr: none does.
struct LayerCount {
  json* object = nullptr;
  const char* key = "";
};

LayerCount find_layer_count(json& config) {
  for (const char* nested : {"text_config", "language_config", "llm_config"})
    if (config.contains(nested) && config[nested].is_object())
      if (const LayerCount found = find_layer_count(config[nested]); found.object) return found;
  for (const char* key : {"num_hidden_layers", "num_layers", "n_layer", "n_layers"})
    if (config.contains(key) && config[key].is_number_integer()) return {&config, key};
  return {};
}

/// A list with a value for each layer gets the copies' too.
void repeat_values(json& object, std::int64_t layers, std::int64_t stride) {
  for (auto& [key, value] : object.items()) {
    if (!value.is_array() || std::int64_t(value.size()) != layers) continue;
    json longer = json::array();
    for (std::int64_t i = 0; i < layers; ++i) {
      longer.push_back(value[std::size_t(i)]);
      if ((i + 1) % stride == 0) longer.push_back(value[std::size_t(i)]);
    }
    value = std::move(longer);
  }
}

}  // namespace

void insert_layers(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes) {
  const Setup& s = reading.setup;
  const std::int64_t layers = request.model.num_hidden_layers, asked = s.new_layers.value_or(kUsualNewLayers);
  const std::int64_t groups = s.layer_groups.value_or(asked);
  if (asked < 1 || layers % asked != 0 || groups < 1 || groups > layers)
    throw InputError(reading.file,
                     fmt::format("{} new layers do not divide the {} of {}", asked, layers, request.model.name),
                     "llamapro_num_new_blocks: a divisor of the number of layers");
  const std::int64_t stride = layers / groups, copies = layers / stride;
  json config = to_hf_config(request.model);
  const LayerCount count = find_layer_count(config);
  if (!count.object)
    throw InputError(reading.file, fmt::format("the layers of {} cannot be multiplied", request.model.name),
                     "another tuner, or a model of one stack of layers");
  repeat_values(*count.object, layers, stride);
  (*count.object)[count.key] = layers + copies;
  ModelSpec longer = parse_hf_config(config, request.model.source);
  longer.name = fmt::format("{}-pro-{}", request.model.name, copies);
  longer.id = fmt::format("{}-pro-{}", request.model.id, copies);
  longer.source = request.model.source;
  request.model = std::move(longer);

  const ModelWeights weights = list_weights(request.model);
  std::set<std::string> meant;
  std::int64_t number = 0;
  for (std::int64_t position = 0; position < weights.num_layers(); ++position) {
    const LayerKind& kind = weights.layer(position);
    if (kind.part != ModelPart::Language || kind.is_bridge) continue;
    if (++number % (stride + 1) != 0) continue;
    for (const WeightTensor& t : kind.tensors) meant.insert(parameter_name(kind, position, t));
  }
  request.recipe.trained =
      names_of_meant(weights, [&](const std::string& name, const WeightTensor&) { return meant.contains(name); });
  notes.push_back(fmt::format("{} copies of layers are put between the {} of the model, and they alone are trained",
                              copies, layers));
}

}  // namespace gpuplan
