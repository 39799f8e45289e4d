#include "ecosystem/module_targets.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/weights.h"

namespace gpuplan {
namespace {

/// Paths of the modules that adapters may sit in, "self_attn.q_proj".
std::vector<std::string> module_paths(const ModelWeights& weights) {
  std::vector<std::string> paths;
  const auto add = [&](const std::vector<WeightTensor>& tensors) {
    for (const WeightTensor& t : tensors)
      if (t.role == WeightRole::Linear || t.role == WeightRole::Head)
        paths.push_back(t.name.substr(0, t.name.rfind('.')));
  };
  add(weights.before);
  for (const LayerKind& kind : weights.kinds) add(kind.tensors);
  add(weights.after);
  return paths;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

/// "x.self_attn.q_proj" ends in "self_attn.q_proj", and in "q_proj".
bool ends_in(const std::string& path, const std::string& end) { return path == end || path.ends_with("." + end); }

/// What the planner calls the modules that a target means; empty where it means none.
std::string name_of(const std::string& target, const std::vector<std::string>& paths) {
  const auto is_meant = [&](const std::string& path) { return ends_in(path, target); };
  const auto has_last = [&](const std::string& path) { return ends_in(path, last_part(target)); };
  if (target == "all-linear" || target == "all_linear") return target;
  if (std::ranges::none_of(paths, is_meant)) return "";
  const bool is_all = std::ranges::all_of(paths, [&](const auto& path) { return is_meant(path) || !has_last(path); });
  return is_all ? last_part(target) : target;
}

}  // namespace

void settle_targets(EstimateRequest& request, std::vector<std::string>& notes) {
  if (!request.recipe.is_adapter()) return;
  const std::vector<std::string> paths = module_paths(list_weights(request.model));
  std::vector<std::string> kept, left_out;
  for (const std::string& target : request.recipe.lora.targets) {
    const std::string name = name_of(target, paths);
    if (name.empty())
      left_out.push_back(target);
    else if (std::ranges::find(kept, name) == kept.end())
      kept.push_back(name);
  }
  if (kept.empty()) return;
  request.recipe.lora.targets = std::move(kept);
  if (!left_out.empty())
    notes.push_back(
        fmt::format("{} has no module {}: PEFT adapts the others", request.model.name, fmt::join(left_out, ", ")));
}

}  // namespace gpuplan
