#include "ecosystem/module_targets.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "ecosystem/trained_parameters.h"
#include "ecosystem/usual_targets.h"
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

bool is_parameter(const ModelWeights& laid_out, const std::string& target) {
  return std::ranges::any_of(laid_out.kinds, [&](const LayerKind& kind) {
    return std::ranges::any_of(kind.tensors, [&](const auto& t) { return names_stacked_parameter(target, t); });
  });
}

bool is_expression(const std::string& target) { return target.find_first_of("^$*()|\\[]+?") != std::string::npos; }

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::string path_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

/// PEFT matches one regular expression with the whole paths of modules. Where it leaves some modules of a name out, the
/// others alone carry adapters. Source: huggingface/peft src/peft/tuners/tuners_utils.py @v0.20.0.
void settle_expression(EstimateRequest& request, const ModelWeights& weights, std::string_view text) {
  LoraSpec& lora = request.recipe.lora;
  const std::regex expression = python_regex(std::string(text), "target_modules");
  const auto takes = [](const WeightTensor& t) { return t.role == WeightRole::Linear || t.role == WeightRole::Head; };
  const auto is_meant = [&](const std::string& parameter, const WeightTensor& t) {
    return takes(t) && std::ranges::any_of(names_of_versions(parameter, t.part), [&](const std::string& name) {
             return std::regex_match(path_of(name), expression);
           });
  };
  std::vector<std::string> targets;
  bool meets_tower = false, meets_projector = false;
  each_parameter(weights, [&](const std::string& parameter, const WeightTensor& t) {
    if (!is_meant(parameter, t)) return;
    meets_tower |= t.part == ModelPart::Tower;
    meets_projector |= t.part == ModelPart::Projector;
    const std::string name = last_part(path_of(parameter));
    if (std::ranges::find(targets, name) == targets.end()) targets.push_back(name);
  });
  if (targets.empty())
    throw InputError("", fmt::format("the expression {} means no linear module of {}", text, request.model.name),
                     "--lora targets=q_proj+v_proj, or all-linear");
  if (request.model.vision.is_present())
    request.recipe.images.train = meets_tower       ? TrainVision::All
                                  : meets_projector ? TrainVision::Projector
                                                    : TrainVision::No;
  bool leaves_some = false;
  each_parameter(weights, [&](const std::string& parameter, const WeightTensor& t) {
    const bool is_closed = (t.part == ModelPart::Tower && !meets_tower) ||
                           (t.part == ModelPart::Projector && !meets_tower && !meets_projector) ||
                           t.part == ModelPart::Idle;
    const bool has_name = std::ranges::find(targets, last_part(path_of(parameter))) != targets.end();
    leaves_some |= takes(t) && has_name && !is_closed && !is_meant(parameter, t);
  });
  if (leaves_some) request.recipe.trained = names_of_meant(weights, is_meant);
  lora.targets = std::move(targets);
}

/// The one regular expression, beside which parameters of experts alone may stand.
std::optional<std::string> expression_of(const std::vector<std::string>& targets, const ModelWeights& stacked) {
  const auto found = std::ranges::find_if(targets, is_expression);
  if (found == targets.end()) return std::nullopt;
  const bool is_alone = std::ranges::all_of(
      targets, [&](const std::string& target) { return &target == &*found || is_parameter(stacked, target); });
  if (!is_alone)
    throw InputError("", fmt::format("a regular expression stands in a list of targets, {}", fmt::join(targets, ", ")),
                     "PEFT takes one expression alone, or a list of names");
  return *found;
}

const std::vector<std::string> kQueryAndValue{"q_proj", "v_proj"};

/// Gives what stands for the query and the value projection in a model whose type PEFT does not know; c_attn of Qwen's
/// first models and W_pack of Baichuan's by their own scripts.
std::string query_and_value(const ModelWeights& weights) {
  for (const char* name : {"query_key_value", "c_attn", "Wqkv", "qkv_proj", "W_pack"})
    if (names_some(name, weights)) return name;
  return "";
}

/// Puts PEFT's own targets in the place of the word that tables state for them. Parameters may stand beside them.
void settle_usual(EstimateRequest& request, std::vector<std::string>& notes) {
  std::vector<std::string>& targets = request.recipe.lora.targets;
  const auto word = std::ranges::find(targets, kUsualTargets);
  if (word == targets.end()) return;
  targets.erase(word);
  const std::vector<std::string> own = usual_targets(*request.recipe.lora.kind, request.model.model_type);
  if (!own.empty() && own != kQueryAndValue)
    notes.push_back(
        fmt::format("PEFT's own targets for models of type {}: {}", request.model.model_type, fmt::join(own, ", ")));
  if (own.empty() && targets.empty())
    notes.push_back(
        fmt::format("PEFT has no targets of its own for models of type {}, and asks for target_modules: q_proj and "
                    "v_proj are counted",
                    request.model.model_type));
  if (own.empty() && targets.empty()) targets = kQueryAndValue;
  targets.insert(targets.begin(), own.begin(), own.end());
}

}  // namespace

void settle_targets(EstimateRequest& request, std::vector<std::string>& notes) {
  if (!request.recipe.is_adapter()) return;
  settle_usual(request, notes);
  const ModelWeights weights = list_weights(request.model);
  ModelWeights stacked = weights;
  lay_out_experts(stacked, {.layout = ExpertLayout::Stacked});
  if (const auto text = expression_of(request.recipe.lora.targets, stacked)) {
    std::vector<std::string> parameters = request.recipe.lora.targets;
    std::erase(parameters, *text);
    settle_expression(request, weights, *text);
    auto& targets = request.recipe.lora.targets;
    targets.insert(targets.end(), parameters.begin(), parameters.end());
    auto& trained = request.recipe.trained;
    if (!trained.empty() && !parameters.empty()) trained.emplace_back("experts");
    return;
  }
  std::vector<std::string> kept, left_out;
  for (const std::string& target : request.recipe.lora.targets) {
    const bool is_known = squash(target) == "alllinear" || names_some(target, weights) || is_parameter(stacked, target);
    (is_known ? kept : left_out).push_back(target);
  }
  if (kept.empty() && left_out == kQueryAndValue)
    if (const std::string own = query_and_value(weights); !own.empty()) {
      request.recipe.lora.targets = {own};
      notes.push_back(fmt::format("{} stands for q_proj and v_proj in {}", own, request.model.name));
      return;
    }
  if (kept.empty()) return;
  request.recipe.lora.targets = std::move(kept);
  if (!left_out.empty())
    notes.push_back(
        fmt::format("{} has no module {}: PEFT adapts the others", request.model.name, fmt::join(left_out, ", ")));
}

}  // namespace gpuplan
