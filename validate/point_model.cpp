#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/catalogue.h"
#include "models/families.h"
#include "models/hf_config.h"
#include "models/weights.h"
#include "validate/point_plan.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr double kSizeTolerance = 0.10;  // of a printed parameter count: sources count embeddings differently

/// Distance of the model from the size the point prints, |ln|; 0 where none is printed.
double size_error(const ModelSpec& model, const Point& point) {
  if (!point.parameters_b) return 0;
  return std::abs(std::log(double(list_weights(model).total_elements()) / (*point.parameters_b * 1e9)));
}

/// A family that stands for models of no catalogue.
struct GenericFamily {
  const char* model_type;
  bool needs_mha;
};
constexpr std::array kGeneric{GenericFamily{"llama", false}, GenericFamily{"gpt2", true},
                              GenericFamily{"starcoder2", false}};

/// Learned positions, where the family has them, reach as far as the point trains.
json config_of(const PointShape& shape, const char* model_type, bool is_tied, std::int64_t num_positions) {
  return {{"model_type", model_type},
          {"hidden_size", shape.hidden},
          {"num_hidden_layers", shape.num_layers},
          {"num_attention_heads", shape.num_heads},
          {"num_key_value_heads", shape.num_kv_heads},
          {"intermediate_size", shape.ffn},
          {"vocab_size", shape.vocab},
          {"max_position_embeddings", num_positions},
          {"resid_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"tie_word_embeddings", is_tied}};
}

bool is_modelled(const char* model_type) { return find_family(model_type, {}) != nullptr; }

/// A run that was measured had a position for every token: llm-foundry sizes the learned table by the length it trains
/// on.
ModelSpec with_positions(ModelSpec model, const Point& point) {
  const std::int64_t length = point.seq_len.value_or(0);
  if (model.learned_positions == 0 || length <= model.max_position_embeddings) return model;
  model.learned_positions = model.max_position_embeddings = length;
  return model;
}

}  // namespace

ModelSpec model_of_shape(const Point& point) {
  const PointShape& shape = *point.shape;
  std::optional<ModelSpec> best;
  for (const GenericFamily& family : kGeneric)
    for (const bool is_tied : {false, true}) {
      if (!is_modelled(family.model_type) || (family.needs_mha && shape.num_kv_heads != shape.num_heads)) continue;
      ModelSpec model =
          parse_hf_config(config_of(shape, family.model_type, is_tied, point.seq_len.value_or(1)), point.where);
      if (!best || size_error(model, point) < size_error(*best, point)) best = std::move(model);
    }
  if (!best || size_error(*best, point) > kSizeTolerance)
    throw InputError(
        "", fmt::format("no family explains the {} B parameters of '{}'", point.parameters_b.value_or(0), point.model));
  best->name = best->id = point.model;
  best->source = point.where;
  return *best;
}

const ModelSpec& PointPlanner::catalogue_model(const std::string& name) {
  if (const auto refused = refused_.find(name); refused != refused_.end()) throw InputError("", refused->second);
  if (const auto known = models_.find(name); known != models_.end()) return known->second;
  try {
    return models_.emplace(name, load_model(name).spec).first->second;
  } catch (const InputError& error) {
    refused_.emplace(name, error.problem());
    throw InputError("", error.problem());
  }
}

/// The catalogue's model where the name means one of about the printed size, else the printed shape.
ModelSpec PointPlanner::model_of(const Point& point) {
  if (point.model.empty()) throw InputError("", "the model is not stated");
  std::string reason;
  try {
    const ModelSpec& model = catalogue_model(alias_or_self(aliases_.models, point.model));
    if (size_error(model, point) <= kSizeTolerance) return with_positions(model, point);
    reason = fmt::format("'{}' has {} B parameters here, {} has {:.3g} B", point.model, *point.parameters_b, model.name,
                         double(list_weights(model).total_elements()) / 1e9);
  } catch (const InputError& error) {
    if (!point.shape || aliases_.models.contains(point.model)) throw InputError("", error.problem());
    reason = error.problem();
  }
  if (point.shape) return model_of_shape(point);
  throw InputError("", reason);
}

}  // namespace gpuplan
