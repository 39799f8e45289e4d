// Adapters and quantised bases of a point: modules are found under the names that the model has for them.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "models/adapter_kind.h"
#include "models/recipe_names.h"
#include "models/weights.h"
#include "validate/point_plan.h"

namespace gpuplan {
namespace {

std::set<std::string> modules_of(const ModelSpec& model) {
  std::set<std::string> names;
  const ModelWeights weights = list_weights(model);
  const auto add = [&](const std::vector<WeightTensor>& list) {
    for (const WeightTensor& tensor : list) {
      const auto parts = split(tensor.name, '.');
      names.insert(parts.size() >= 2 ? parts[parts.size() - 2] : tensor.name);
    }
  };
  add(weights.before);
  for (const LayerKind& kind : weights.kinds) add(kind.tensors);
  add(weights.after);
  return names;
}

/// First module of "a|b" that the model has; the text itself when it has none, which is refused later by name.
std::string pick_module(const std::string& alternatives, const std::set<std::string>& known) {
  const auto names = split(alternatives, '|');
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& n) { return known.contains(n); });
  return found == names.end() ? names.front() : *found;
}

void add_once(std::vector<std::string>& list, const std::string& name) {
  if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

/// PEFT's own choice for decoders, where nothing is stated.
const std::vector<std::string> kUnstatedTargets{"q_proj", "v_proj"};

/// Table of token embeddings and head, under the names that families have for them.
const std::vector<std::string> kEmbeddings{"embed_tokens|wte|word_embeddings|embed_in|tok_embeddings",
                                           "lm_head|embed_out|output_layer"};

}  // namespace

LoraSpec lora_of(const Point& point, const ModelSpec& model, const AliasTable& aliases) {
  LoraSpec lora;
  lora.kind = point.lora.kind;
  lora.rotation_block = point.lora.rotation_block;
  lora.factor = point.lora.factor;
  lora.rank = point.lora.rank.value_or(lora.kind->rank);
  lora.alpha = point.lora.alpha.value_or(2.0 * double(lora.rank));
  lora.targets.clear();
  if (point.quant.empty() && point.weight_dtype == "float32") lora.base_dtype = Dtype::F32;
  const auto known = modules_of(model);
  if (point.lora.trains_embeddings)
    for (const std::string& module : kEmbeddings) add_once(lora.modules_to_save, pick_module(module, known));
  for (const std::string& target : point.lora.targets.empty() ? kUnstatedTargets : point.lora.targets) {
    const auto trained = aliases.trained_modules.find(target);
    if (trained != aliases.trained_modules.end()) {
      for (const std::string& module : trained->second) add_once(lora.modules_to_save, pick_module(module, known));
      continue;
    }
    const auto alias = aliases.lora_targets.find(target);
    if (alias == aliases.lora_targets.end() || known.contains(target))
      add_once(lora.targets, target);
    else
      for (const std::string& module : alias->second) add_once(lora.targets, pick_module(module, known));
  }
  return lora;
}

QuantSpec quant_of(const Point& point, const FrameworkAlias& framework, const AliasTable& aliases) {
  const auto alias = aliases.quants.find(point.quant);
  if (alias == aliases.quants.end()) throw InputError("", fmt::format("quantisation '{}'", point.quant));
  const auto* row = names_of(BaseQuant{}).find(alias->second.kind);
  if (!row) throw InputError("", fmt::format("quantisation '{}' is not modelled yet", alias->second.kind));
  return {.kind = row->value, .double_quant = alias->second.is_double || framework.double_quant};
}

}  // namespace gpuplan
