#include "models/adapter_names.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include <fmt/format.h>

#include "base/names.h"
#include "models/expert_layout.h"
#include "models/layer_marks.h"

namespace gpuplan {
namespace {

/// Says whether a module's weight goes into a fused kernel or belongs to stacked experts (WeightRole::Stacked).
bool is_bare(const ModelWeights& weights, const std::string& module) {
  bool found = false;
  each_list(weights, [&](const std::vector<WeightTensor>& list) {
    for (const WeightTensor& t : list) found |= t.role == WeightRole::Stacked && names_module(module, t.name);
  });
  return found;
}

}  // namespace

std::optional<InputError> wrong_name(const std::vector<std::string>& wanted, const ModelWeights& weights,
                                     bool linears_only, const char* flag) {
  std::vector<std::string> known;
  std::vector<std::string> missing = wanted;
  each_list(weights, [&](const std::vector<WeightTensor>& list) {
    for (const WeightTensor& t : list) {
      if (linears_only && t.role != WeightRole::Linear && t.role != WeightRole::Head) continue;
      if (std::find(known.begin(), known.end(), module_name(t.name)) == known.end())
        known.push_back(module_name(t.name));
      std::erase_if(missing, [&](const std::string& name) { return names_module(name, t.name); });
    }
  });
  for (const std::string& name : missing) {
    if (linears_only && squash(name) == "alllinear") continue;
    if (linears_only && is_bare(weights, name))
      return InputError(
          flag, fmt::format("the weight of '{}' is multiplied without its module, so it takes no adapter", name),
          fmt::format("modules: {}", fmt::join(known, ", ")));
    return InputError(flag, fmt::format("the model has no module '{}'", name),
                      did_you_mean(name, known, fmt::format("modules: {}", fmt::join(known, ", "))));
  }
  return {};
}

std::optional<InputError> refused_target(const Recipe& recipe, const ModelSpec& spec, const ModelWeights& weights,
                                         const FrameworkConvention& framework) {
  const std::vector<std::string>& refused = framework.adapters.refuses;
  const auto& targets = recipe.lora.targets;
  const bool takes_all = std::ranges::any_of(targets, [](const auto& t) { return squash(t) == "alllinear"; });
  const auto is_refused = [&](const std::string& name) {
    return std::ranges::find(refused, name) != refused.end() &&
           (takes_all || std::ranges::find(targets, name) != targets.end());
  };
  std::vector<std::string> taken;
  std::string found;
  each_list(weights, [&](const std::vector<WeightTensor>& list) {
    for (const WeightTensor& t : list) {
      const std::string name = module_name(t.name);
      const bool is_matrix = t.role == WeightRole::Linear || (t.role == WeightRole::Stacked && t.shape.size() == 2);
      if (!is_matrix) continue;
      if (is_refused(name)) found = name;
      const bool is_taken = t.role == WeightRole::Linear && std::ranges::find(refused, name) == refused.end();
      if (is_taken && std::ranges::find(taken, name) == taken.end()) taken.push_back(name);
    }
  });
  if (found.empty() || !recipe.lora.kind->is_lora()) return {};
  return InputError("--lora targets",
                    fmt::format("{} takes no adapter in models of type {} with {}", found, spec.model_type,
                                deciding_versions(framework.versions, framework.name)),
                    fmt::format("name the others: --lora targets={}", fmt::join(taken, "+")));
}

std::optional<InputError> wrong_target(const Recipe& recipe, const ModelWeights& weights,
                                       const FrameworkExperts& experts) {
  auto wrong = wrong_name(recipe.lora.targets, weights, true, "--lora targets");
  if (!wrong) return {};
  ModelWeights laid_out = weights;
  lay_out_experts(laid_out, experts);
  std::vector<std::string> others;  // that are no parameters of experts
  const auto is_parameter = [&](const std::string& target) {
    return std::ranges::any_of(laid_out.kinds, [&](const LayerKind& kind) {
      return std::ranges::any_of(kind.tensors, [&](const auto& t) { return names_stacked_parameter(target, t); });
    });
  };
  std::ranges::copy_if(recipe.lora.targets, std::back_inserter(others), std::not_fn(is_parameter));
  return wrong_name(others, weights, true, "--lora targets");
}

}  // namespace gpuplan
