#include "run/files/adapter_files.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kPeftPrefix = "base_model.model.";
constexpr const char* kOtherEngine = "train it with peft";

/// A choice of peft's that changes what is trained and that the native executor has no kernels for. Anything but `off`,
/// null, false or empty is refused.
struct Untrained {
  const char* key;
  const char* off;
  const char* meaning;
};
constexpr std::array kUntrained{Untrained{"use_dora", "", "DoRA"},
                                Untrained{"use_rslora", "", "rank-stabilised scaling"},
                                Untrained{"use_qalora", "", "QA-LoRA"},
                                Untrained{"use_bdlora", "", "block-diagonal LoRA"},
                                Untrained{"bias", "none", "trained biases"},
                                Untrained{"lora_bias", "", "biases of adapters"},
                                Untrained{"fan_in_fan_out", "", "transposed weights"},
                                Untrained{"rank_pattern", "", "ranks that differ by module"},
                                Untrained{"alpha_pattern", "", "alphas that differ by module"},
                                Untrained{"layers_to_transform", "", "adapters in some layers only"},
                                Untrained{"layer_replication", "", "replicated layers"},
                                Untrained{"exclude_modules", "", "excluded modules"},
                                Untrained{"target_parameters", "", "adapted parameters that are no modules"},
                                Untrained{"trainable_token_indices", "", "single trained tokens"},
                                Untrained{"alora_invocation_tokens", "", "activated LoRA"},
                                Untrained{"loftq_config", "", "a base changed by LoftQ"}};

/// Ways to begin that leave the base as it was; others (pissa, olora, corda, loftq) keep a part of it in the adapter.
constexpr std::array<std::string_view, 3> kPlainStarts{"gaussian", "eva", "orthogonal"};

bool is_off(const json& value, std::string_view off) {
  return value.is_null() || value == json(false) || (value.is_structured() && value.empty()) ||
         (value.is_string() && value == off);
}

void report_untrained(Fields& fields) {
  for (const Untrained& row : kUntrained)
    if (const json* value = fields.find(row.key); value && !is_off(*value, row.off))
      fields.report(row.key,
                    fmt::format("is {}: {} cannot be trained by the native executor", value->dump(), row.meaning));
  const json* start = fields.find("init_lora_weights");
  if (start && start->is_string() && std::ranges::count(kPlainStarts, start->get<std::string>()) == 0)
    fields.report("init_lora_weights",
                  fmt::format("is {}, which also changes the base: not trained by the native executor", start->dump()));
}

std::vector<std::string> modules_in(Fields& fields, const char* key) {
  const json* value = fields.find(key);
  if (!value) return {};
  if (*value == "all-linear") return {"all-linear"};
  const bool is_list =
      value->is_array() && std::ranges::all_of(*value, [](const json& item) { return item.is_string(); });
  if (is_list) return value->get<std::vector<std::string>>();
  fields.report(key, fmt::format("must be a list of module names such as \"q_proj\", found {}", value->dump()));
  return {};
}

json list_or_null(const std::vector<std::string>& names) { return names.empty() ? json() : json(names); }

/// peft writes whole numbers as integers.
json whole_or_real(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? json(std::int64_t(value)) : json(value);
}

}  // namespace

AdapterConfig read_adapter_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kConfigFile;
  const json object = read_json_file(file);
  Fields fields(object, file.string());
  if (const std::string type = fields.text("peft_type"); !type.empty() && type != "LORA")
    fields.report("peft_type", fmt::format("is {}; the native executor trains LORA", type));
  AdapterConfig config;
  config.base_model = fields.optional_text("base_model_name_or_path").value_or("");
  config.rank = fields.optional_integer("r", {.least = 1, .most = 1 << 20}).value_or(8);
  config.alpha = fields.optional_number("lora_alpha", kAnyNumber).value_or(8);  // peft's default, not ours
  config.dropout = fields.optional_number("lora_dropout", kAnyNumber).value_or(0);
  config.target_modules = modules_in(fields, "target_modules");
  config.modules_to_save = modules_in(fields, "modules_to_save");
  if (config.dropout < 0 || config.dropout >= 1)
    fields.report("lora_dropout", fmt::format("must be in [0, 1), found {}", config.dropout));
  if (config.target_modules.empty() && !fields.has_problems())
    fields.report("target_modules", "must name at least one module");
  report_untrained(fields);
  fields.finish(kOtherEngine);
  return config;
}

void write_adapter_config(const std::filesystem::path& folder, const AdapterConfig& config) {
  const json object{{"alpha_pattern", json::object()},
                    {"auto_mapping", nullptr},
                    {"base_model_name_or_path", config.base_model},
                    {"bias", "none"},
                    {"fan_in_fan_out", false},
                    {"inference_mode", true},
                    {"init_lora_weights", true},
                    {"layers_pattern", nullptr},
                    {"layers_to_transform", nullptr},
                    {"lora_alpha", whole_or_real(config.alpha)},
                    {"lora_dropout", config.dropout},
                    {"modules_to_save", list_or_null(config.modules_to_save)},
                    {"peft_type", "LORA"},
                    {"r", config.rank},
                    {"rank_pattern", json::object()},
                    {"revision", nullptr},
                    {"target_modules", config.target_modules},
                    {"task_type", config.task_type},
                    {"use_dora", false},
                    {"use_rslora", false}};
  write_file_atomically(folder / kConfigFile, json_text(object));
}

std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind(".weight")); }

std::string saved_key(const std::string& tensor) { return kPeftPrefix + tensor; }

std::string lora_key(const std::string& tensor, bool is_a) {
  return fmt::format("{}{}.lora_{}.weight", kPeftPrefix, module_of(tensor), is_a ? 'A' : 'B');
}

}  // namespace gpuplan
