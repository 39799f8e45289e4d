#include "models/expert_layout.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

/// A module of data/renamed_modules.yaml.
struct RenamedModule {
  std::string checkpoint, program;
};

std::vector<RenamedModule> read_renamed() {
  YamlFile file = YamlFile::read(data_dir() / "renamed_modules.yaml");
  std::vector<RenamedModule> rows;
  std::string source;
  for (Fields& f : file.top().list("renamed")) {
    RenamedModule& row = rows.emplace_back();
    f("checkpoint", row.checkpoint);
    f("program", row.program);
    f("source", source);
    f.refuse_unknown();
  }
  file.top().refuse_unknown();
  file.finish();
  return rows;
}

/// The path of a tensor as the program that loads it has it.
std::string loaded_name(const std::string& tensor) {
  std::vector<std::string> parts = split(tensor, '.');
  for (std::string& part : parts)
    for (const RenamedModule& row : read_once<read_renamed>())
      if (part == row.checkpoint) part = row.program;
  return fmt::format("{}", fmt::join(parts, "."));
}

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

WeightTensor* tensor_of(std::vector<WeightTensor>& tensors, LinearSlot slot) {
  const auto at = std::ranges::find(tensors, slot, &WeightTensor::slot);
  return at == tensors.end() ? nullptr : &*at;
}

/// [experts, out, in], as F.linear takes it. `others`: modules that are merged into the tensor, beside its own.
void stack(WeightTensor& tensor, const char* name, LinearSlot slot, std::int64_t out,
           std::vector<std::string> others = {}) {
  const std::string old = tensor.name;
  tensor.name = old.substr(0, old.find("{}")) + name;
  tensor.made_of = std::move(others);
  tensor.made_of.push_back(module_name(old));
  tensor.shape = {tensor.copies, out, tensor.in};
  tensor.role = WeightRole::Stacked;
  tensor.out = out;
  tensor.slot = slot;
  tensor.copies = 1;
}

/// Gate and up become one parameter, down another.
void stack_experts(std::vector<WeightTensor>& tensors) {
  WeightTensor* const up = tensor_of(tensors, LinearSlot::ExpertUp);
  WeightTensor* const down = tensor_of(tensors, LinearSlot::ExpertDown);
  if (!up || !down || up->role != WeightRole::Linear) return;  // stacked in the checkpoint already
  stack(*down, "down_proj", LinearSlot::ExpertDown, down->out);
  if (WeightTensor* const gate = tensor_of(tensors, LinearSlot::ExpertGate)) {
    stack(*gate, "gate_up_proj", LinearSlot::ExpertGateUp, 2 * gate->out, {module_name(up->name)});
    std::erase_if(tensors, [](const WeightTensor& t) { return t.slot == LinearSlot::ExpertUp; });
  } else {
    stack(*up, "up_proj", LinearSlot::ExpertUp, up->out);
  }
}

void lay_out_router(WeightTensor& router, RouterWeight kind) {
  if (kind == RouterWeight::Stored) return;
  router.role = kind == RouterWeight::Parameter ? WeightRole::Stacked : WeightRole::Linear;
  router.is_subclass = kind == RouterWeight::LinearSubclass;
}

bool says_all_linear(const LoraSpec& lora) {
  return std::ranges::any_of(lora.targets, [](const std::string& target) { return squash(target) == "alllinear"; });
}

}  // namespace

std::string module_name(const std::string& tensor) {
  const auto parts = split(tensor, '.');
  return parts.size() >= 2 ? parts[parts.size() - 2] : tensor;
}

bool names_module(std::string_view target, std::string_view tensor) {
  const std::string_view path = tensor.substr(0, tensor.rfind('.'));
  if (!path.ends_with(target)) return false;
  const std::size_t before = path.size() - target.size();
  return before == 0 || path[before - 1] == '.';
}

bool names_stacked_parameter(std::string_view target, const WeightTensor& tensor) {
  const auto is_named = [&](std::string_view name) {
    return name.ends_with(target) && (name.size() == target.size() || name[name.size() - target.size() - 1] == '.');
  };
  if (!is_stacked_experts(tensor) || target.find('.') == std::string_view::npos) return false;
  return is_named(tensor.name) || is_named(loaded_name(tensor.name));
}

bool is_stacked_experts(const WeightTensor& tensor) {
  return tensor.role == WeightRole::Stacked && tensor.shape.size() == 3 && tensor.is_routed;
}

void lay_out_experts(ModelWeights& weights, const FrameworkExperts& experts) {
  for (LayerKind& kind : weights.kinds) {
    if (!kind.is_moe) continue;
    if (experts.layout == ExpertLayout::Stacked) stack_experts(kind.tensors);
    if (WeightTensor* const router = tensor_of(kind.tensors, LinearSlot::Router))
      lay_out_router(*router, experts.router);
  }
}

bool make_experts_linear(ModelWeights& weights) {
  const auto linear = [](WeightTensor& t, const char* name, LinearSlot slot) {
    t.name = t.name.substr(0, t.name.rfind('.') + 1) + name + ".{}.weight";
    t.copies = t.shape[0];
    t.shape = {t.out, t.in};
    t.role = WeightRole::Linear;
    t.slot = slot;
  };
  bool found = false;
  for (LayerKind& kind : weights.kinds) {
    WeightTensor* const gate = tensor_of(kind.tensors, LinearSlot::ExpertGateUp);
    WeightTensor* const down = tensor_of(kind.tensors, LinearSlot::ExpertDown);
    if (!gate || !down || !is_stacked_experts(*gate) || gate->out % 2 != 0) continue;
    found = true;
    gate->out /= 2;
    linear(*down, "down_projs", LinearSlot::ExpertDown);
    WeightTensor up = *gate;
    linear(*gate, "gate_projs", LinearSlot::ExpertGate);
    linear(up, "up_projs", LinearSlot::ExpertUp);
    kind.tensors.push_back(std::move(up));
  }
  return found;
}

std::vector<std::string> linear_modules(const ModelWeights& weights) {
  std::vector<std::string> modules;
  const auto add = [&](const std::vector<WeightTensor>& list) {
    for (const WeightTensor& t : list)
      if (t.role == WeightRole::Linear && !contains(modules, module_name(t.name)))
        modules.push_back(module_name(t.name));
  };
  add(weights.before);
  for (const LayerKind& kind : weights.kinds) add(kind.tensors);
  add(weights.after);
  return modules;
}

bool fails_on_targets(const Recipe& recipe, const FrameworkAdapters& adapters) {
  return recipe.is_adapter() && adapters.all_linear == ExpertReach::Error && !adapters.all_linear_is_names &&
         says_all_linear(recipe.lora);
}

AdapterRanks::AdapterRanks(const Recipe& recipe, const FrameworkAdapters& adapters, const ModelWeights& laid_out)
    : lora_(recipe.lora),
      adapters_(adapters),
      targets_(recipe.lora.targets),
      is_all_linear_(says_all_linear(recipe.lora)) {
  if (is_all_linear_ && adapters.all_linear_is_names) {
    is_all_linear_ = false;
    targets_ = linear_modules(laid_out);
  }
  reaches_parameters_ = (is_all_linear_ ? adapters.all_linear : adapters.named) == ExpertReach::TargetParameters;
  for (const LayerKind& kind : laid_out.kinds)
    takes_experts_ |= std::ranges::any_of(
        kind.tensors, [&](const WeightTensor& t) { return is_stacked_experts(t) && rank_of_experts(t) > 0; });
}

bool AdapterRanks::refuses_variant() const {
  return takes_experts_ && adapters_.parameters_are_plain && (lora_.dropout > 0 || lora_.is_dora);
}

/// Experts that were modules in the checkpoint answer to the names of these: gate_proj, or w1 for Mixtral's.
std::int64_t AdapterRanks::rank_of_experts(const WeightTensor& stacked) const {
  const bool is_parameter = std::ranges::any_of(
      targets_, [&](const std::string& target) { return names_stacked_parameter(target, stacked); });
  if (is_parameter) return lora_.rank;
  const auto is_named = [&](const std::string& module) { return contains(targets_, module); };
  const bool is_reached =
      is_all_linear_ || (!stacked.made_of.empty() && std::ranges::all_of(stacked.made_of, is_named));
  if (!reaches_parameters_ || !is_reached) return 0;
  return lora_.rank * (stacked.slot == LinearSlot::ExpertGateUp ? adapters_.gate_up_rank : 1);
}

std::int64_t AdapterRanks::rank_of(const WeightTensor& tensor) const {
  if (is_stacked_experts(tensor)) return rank_of_experts(tensor);
  if (takes_experts_ && is_all_linear_ && tensor.slot == LinearSlot::Router) return lora_.rank;
  const std::string module = module_name(tensor.name);
  if (takes_experts_ && contains(adapters_.drops_linears, module)) return 0;
  const bool is_linear = tensor.role == WeightRole::Linear;
  if (is_linear && is_all_linear_) return lora_.rank;
  const bool is_named =
      std::ranges::any_of(targets_, [&](const std::string& target) { return names_module(target, tensor.name); });
  return (is_linear || tensor.role == WeightRole::Head) && is_named ? lora_.rank : 0;
}

}  // namespace gpuplan
