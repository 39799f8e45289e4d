#include "ecosystem/torchtune.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/names.h"

namespace gpuplan {
namespace {

/// torchtune's names of modules, and those of Hugging Face's models.
constexpr std::array<std::pair<std::string_view, std::string_view>, 1> kModules{{{"output_proj", "o_proj"}}};

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// "0_5b_instruct" as "0.5b-instruct": an underscore between digits is a point.
std::string with_points(const std::string& name) {
  std::string out;
  for (const std::string& part : split(name, '_')) {
    const bool follows_digit = !out.empty() && is_number(out.substr(out.size() - 1));
    const bool is_point = follows_digit && !part.empty() && is_number(part.substr(0, 1));
    out += (out.empty() ? "" : is_point ? "." : "-") + part;
  }
  return out;
}

std::string function_of(const std::string& component) { return component.substr(component.rfind('.') + 1); }

void resolve_targets(Setup& s) {
  std::vector<std::string> targets = s.module_targets.value_or(std::vector<std::string>{"q_proj", "v_proj"});
  for (std::string& target : targets)
    for (const auto& [own, other] : kModules)
      if (target == own) target = other;
  if (s.mlp_adapters.value_or(false)) targets.insert(targets.end(), {"gate_proj", "up_proj", "down_proj"});
  if (s.head_adapters.value_or(false)) targets.emplace_back("lm_head");
  s.targets = targets;
}

}  // namespace

std::string model_of_component(const std::string& component) {
  std::string name = function_of(component);
  for (const std::string_view prefix : {"qlora_", "lora_", "dora_", "qdora_"})
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  const std::string above = component.substr(0, std::min(component.rfind('.'), component.size()));
  const std::string family = function_of(above);  // the module: qwen2_5 of qwen2_5.qwen2_5_0_5b
  if (!name.starts_with(family + "_")) return with_points(name);
  return with_points(family) + "-" + with_points(name.substr(family.size() + 1));
}

void resolve_component(Setup& s) {
  if (!s.component) return;
  const std::string function = function_of(*s.component);
  const bool is_quantised = function.starts_with("qlora_") || function.starts_with("qdora_");
  const bool is_adapter = is_quantised || function.starts_with("lora_") || function.starts_with("dora_");
  s.model = model_of_component(*s.component);
  s.adapter = !is_adapter ? "none" : is_quantised ? "qlora" : "lora";
  if (is_quantised) s.quant_bits = 4;
  if (function.starts_with("dora_") || function.starts_with("qdora_")) s.dora = true;
  if (is_adapter) resolve_targets(s);
  if (s.fused_optimizer.value_or(false) && s.optimizer == "adamw-foreach") s.optimizer = "adamw-fused";
}

}  // namespace gpuplan
