#include "ecosystem/module_targets.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/names.h"
#include "models/expert_layout.h"
#include "models/weights.h"

namespace gpuplan {
namespace {

/// Says whether adapters may sit in a module that the target names.
bool names_some(const std::string& target, const ModelWeights& weights) {
  const auto is_named = [&](const std::vector<WeightTensor>& tensors) {
    return std::ranges::any_of(tensors, [&](const WeightTensor& t) {
      return (t.role == WeightRole::Linear || t.role == WeightRole::Head) && names_module(target, t.name);
    });
  };
  return is_named(weights.before) || is_named(weights.after) ||
         std::ranges::any_of(weights.kinds, [&](const LayerKind& kind) { return is_named(kind.tensors); });
}

}  // namespace

void settle_targets(EstimateRequest& request, std::vector<std::string>& notes) {
  if (!request.recipe.is_adapter()) return;
  const ModelWeights weights = list_weights(request.model);
  std::vector<std::string> kept, left_out;
  for (const std::string& target : request.recipe.lora.targets)
    (squash(target) == "alllinear" || names_some(target, weights) ? kept : left_out).push_back(target);
  if (kept.empty()) return;
  request.recipe.lora.targets = std::move(kept);
  if (!left_out.empty())
    notes.push_back(
        fmt::format("{} has no module {}: PEFT adapts the others", request.model.name, fmt::join(left_out, ", ")));
}

}  // namespace gpuplan
