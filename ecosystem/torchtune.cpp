#include "ecosystem/torchtune.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

/// torchtune's names of modules, and those of Hugging Face's models.
constexpr std::array<std::pair<std::string_view, std::string_view>, 1> kModules{{{"output_proj", "o_proj"}}};

/// Holds what "all-linear" means for the decoders that torchtune has.
constexpr std::array<std::string_view, 7> kAllLinear{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                     "gate_proj", "up_proj", "down_proj"};
constexpr std::array<std::string_view, 3> kMlp{"gate_proj", "up_proj", "down_proj"};

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
  if (s.mlp_adapters.value_or(false)) targets.insert(targets.end(), kMlp.begin(), kMlp.end());
  if (s.head_adapters.value_or(false)) targets.emplace_back("lm_head");
  s.targets = std::is_permutation(targets.begin(), targets.end(), kAllLinear.begin(), kAllLinear.end())
                  ? std::vector<std::string>{"all-linear"}
                  : targets;
}

/// Phi's checkpoints have one linear where torchtune has several.
std::string join_targets(std::vector<std::string>& targets) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kJoined{{{"q_proj", "qkv_proj"},
                                                                                  {"k_proj", "qkv_proj"},
                                                                                  {"v_proj", "qkv_proj"},
                                                                                  {"gate_proj", "gate_up_proj"},
                                                                                  {"up_proj", "gate_up_proj"}}};
  std::vector<std::string> joined;
  for (const std::string& target : targets) {
    const auto row =
        std::find_if(kJoined.begin(), kJoined.end(), [&](const auto& pair) { return pair.first == target; });
    const std::string name(row == kJoined.end() ? std::string_view(target) : row->second);
    if (std::find(joined.begin(), joined.end(), name) == joined.end()) joined.push_back(name);
  }
  if (joined == targets) return "";
  targets = std::move(joined);
  return "torchtune's adapters of q, k and v, and of gate and up, are counted as those of Phi's joined linears";
}

void use_targets(Setup& s, const std::vector<std::string>& given) {
  std::vector<std::string> targets = given;
  if (targets == std::vector<std::string>{"all-linear"}) targets.assign(kAllLinear.begin(), kAllLinear.end());
  std::vector<std::string> attention;
  std::size_t num_mlp = 0;
  s.head_adapters = false;
  for (std::string& target : targets) {
    if (std::find(kMlp.begin(), kMlp.end(), target) != kMlp.end()) {
      ++num_mlp;
      continue;
    }
    if (target == "lm_head") {
      s.head_adapters = true;
      continue;
    }
    for (const auto& [own, other] : kModules)
      if (target == other) target = own;
    attention.push_back(target);
  }
  s.mlp_adapters = num_mlp == kMlp.size();
  s.module_targets = attention;
}

std::pair<std::shared_ptr<ValueTree>, std::string> models_file() {
  const std::string where = (data_dir() / "ecosystem" / "torchtune_models.yaml").string();
  return {read_yaml11(where), where};
}

using Names = std::map<std::string, std::string>;

/// Functions and the catalogue's names of their models, where one does not follow from the other.
Names read_names() {
  const auto [tree, where] = models_file();
  Names names;
  try {
    for (const nlohmann::json& pair : tree->root.at("named")) names.emplace(pair.at(0), pair.at(1));
  } catch (const nlohmann::json::exception& error) { throw InputError(where, error.what()); }
  return names;
}

}  // namespace

std::string model_of_component(const std::string& component) {
  std::string name = function_of(component);
  for (const std::string_view prefix : {"qlora_", "lora_", "dora_", "qdora_"})
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  const Names& named = read_once<read_names>();
  if (const auto found = named.find(name); found != named.end()) return found->second;
  const std::string above = component.substr(0, std::min(component.rfind('.'), component.size()));
  const std::string family = function_of(above);  // the module: qwen2_5 of qwen2_5.qwen2_5_0_5b
  if (!name.starts_with(family + "_")) return with_points(name);
  return with_points(family) + "-" + with_points(name.substr(family.size() + 1));
}

std::string resolve_component(Setup& s) {
  if (s.fused_optimizer.value_or(false) && s.optimizer == "adamw-foreach") s.optimizer = "adamw-fused";
  if (!s.component) return "";
  if (s.teacher) s.teacher = model_of_component(*s.teacher);
  const std::string function = function_of(*s.component);
  const bool is_quantised = function.starts_with("qlora_") || function.starts_with("qdora_");
  const bool is_adapter = is_quantised || function.starts_with("lora_") || function.starts_with("dora_");
  s.model = model_of_component(*s.component);
  s.adapter = !is_adapter ? "none" : is_quantised ? "qlora" : "lora";
  if (is_quantised) s.quant_bits = 4;
  if (function.starts_with("dora_") || function.starts_with("qdora_")) s.dora = true;
  if (is_adapter) resolve_targets(s);
  return is_adapter && function.find("_phi") != std::string::npos ? join_targets(*s.targets) : "";
}

/// A builder makes a model of this type of config.json, with its head tied or not.
struct Builder {
  std::string model_type, architecture;
  bool is_tied{};
};

using Builders = std::map<std::string, Builder>;

static Builders read_builders() {
  const auto [tree, where] = models_file();
  Builders builders;
  try {
    for (const nlohmann::json& row : tree->root.at("builders"))
      for (const nlohmann::json& name : row.at("functions"))
        builders.emplace(name, Builder{row.at("model_type"), row.at("architecture"), row.value("tied", false)});
  } catch (const nlohmann::json::exception& error) { throw InputError(where, error.what()); }
  return builders;
}

/// The width of an MLP where nothing says it: two thirds of four widths, a multiple of 256. Source: pytorch/torchtune
/// torchtune/models/llama3/_model_utils.py @bd2a0fc7 (scale_hidden_dim_for_mlp).
static std::int64_t usual_mlp_width(std::int64_t width) { return (4 * (2 * width / 3) + 255) / 256 * 256; }

std::string config_of_sizes(const Setup& s) {
  if (!s.component || !(s.own_width || s.own_layers || s.own_heads || s.own_vocab)) return "";
  std::string function = function_of(*s.component);
  for (const std::string_view prefix : {"qlora_", "lora_", "dora_", "qdora_"})
    if (function.starts_with(prefix)) function.erase(0, prefix.size());
  const Builders& builders = read_once<read_builders>();
  const auto builder = builders.find(function);
  if (builder == builders.end())
    throw InputError("model._component_", fmt::format("sizes of {} are not read", *s.component),
                     "--model with a folder that has its config.json");
  constexpr std::int64_t kMost = 1 << 24;  // of a size here; the reader of configs has narrower bounds
  const auto needed = [&](const Setup::Count& size, const char* key) {
    if (!size || *size < 1 || *size > kMost)
      throw InputError(fmt::format("model.{}", key), "a whole number is needed beside the other sizes",
                       "torchtune's builder stops without it");
    return *size;
  };
  const std::int64_t width = needed(s.own_width, "embed_dim"), heads = needed(s.own_heads, "num_heads");
  nlohmann::json config{{"architectures", {builder->second.architecture}},
                        {"model_type", builder->second.model_type},
                        {"hidden_size", width},
                        {"num_hidden_layers", needed(s.own_layers, "num_layers")},
                        {"num_attention_heads", heads},
                        {"num_key_value_heads", s.own_kv_heads.value_or(heads)},
                        {"vocab_size", needed(s.own_vocab, "vocab_size")},
                        {"intermediate_size", s.own_mlp_width.value_or(usual_mlp_width(width))},
                        {"tie_word_embeddings", builder->second.is_tied}};
  if (s.own_head_dim) config["head_dim"] = *s.own_head_dim;
  return config.dump();
}

std::vector<TorchtuneModel> read_models() {
  const auto [tree, where] = models_file();
  std::vector<TorchtuneModel> rows;
  try {
    for (const nlohmann::json& row : tree->root.at("models"))
      for (const nlohmann::json& name : row.at("names"))
        rows.push_back({.module = row.at("module"),
                        .name = name,
                        .tokenizer = row.at("tokenizer"),
                        .tokenizer_file = row.at("file"),
                        .merges_file = row.value("merges", ""),
                        .type = row.at("type"),
                        .has_qlora = row.value("has_qlora", true)});
  } catch (const nlohmann::json::exception& error) { throw InputError(where, error.what()); }
  return rows;
}

const std::vector<TorchtuneModel>& torchtune_models() { return read_once<read_models>(); }

void use_component(Setup& s, const TorchtuneModel* model) {
  const std::string adapter = s.adapter.value_or("none");
  if (model)
    s.component =
        fmt::format("torchtune.models.{}.{}{}", model->module, adapter == "none" ? "" : adapter + "_", model->name);
  if (adapter != "none" && s.targets) use_targets(s, *s.targets);
  if (s.optimizer == "adamw-fused") {
    s.optimizer = "adamw-foreach";
    s.fused_optimizer = true;
  }
  if (!s.loss) s.loss = "plain";
}

}  // namespace gpuplan
