// Hugging Face config.json to ModelSpec and back: finds the family and leaves the rest to it.
#include <fmt/format.h>

#include "base/error.h"
#include "base/json_file.h"
#include "models/catalogue.h"
#include "models/families.h"

namespace gpuplan {
namespace {

using nlohmann::json;

struct ConfigKind {
  std::string model_type, architecture;
};

ConfigKind read_kind(JsonFields& config) {
  ConfigKind kind{.model_type = config.optional_string("model_type").value_or(""), .architecture = {}};
  const json* list = config.find("architectures");
  if (list && (!list->is_array() || list->empty() || !list->front().is_string()))
    config.report("architectures", "must be a list with a class name, such as [\"LlamaForCausalLM\"]");
  else if (list)
    kind.architecture = list->front().get<std::string>();
  else if (kind.model_type.empty())
    config.report("model_type", "is missing, and so is architectures: which model is it?");
  return kind;
}

[[noreturn]] void refuse(const ConfigKind& kind, const std::string& where) {
  const std::string& shown = kind.architecture.empty() ? kind.model_type : kind.architecture;
  if (const Family* row = find_family(kind.model_type, {}); row && !kind.model_type.empty())
    throw InputError(where, fmt::format("architecture '{}' of model_type '{}' is not modelled", shown, kind.model_type),
                     fmt::format("{} is modelled as {}", row->name, row->architecture));
  throw InputError(where, fmt::format("unknown architecture '{}' (model_type '{}')", shown, kind.model_type),
                   "modelled: " + modelled_families());
}

std::string last_part(const std::string& path) {
  const auto end = path.find_last_not_of('/');
  if (end == std::string::npos) return {};
  const auto slash = path.rfind('/', end);
  return path.substr(slash == std::string::npos ? 0 : slash + 1,
                     end - (slash == std::string::npos ? 0 : slash + 1) + 1);
}

}  // namespace

ModelSpec parse_hf_config(const json& config, const std::string& where) {
  JsonFields top(config, where);
  const ConfigKind kind = read_kind(top);
  const std::string origin = top.optional_string("_name_or_path").value_or("");
  top.finish("a Hugging Face config.json is expected");
  const std::string name = origin.empty() ? kind.model_type : last_part(origin);
  const Family* family = find_family(kind.model_type, kind.architecture);
  if (!family) refuse(kind, where);

  const bool is_wrapped = config.contains("text_config") && !family->wrapper_type.empty();
  JsonFields fields(is_wrapped ? config["text_config"] : config, where, is_wrapped ? "text_config." : "");
  ModelSpec spec{.name = name,
                 .id = origin.empty() ? where : origin,
                 .family = std::string(family->name),
                 .architecture = std::string(family->architecture),
                 .model_type = std::string(family->model_type),
                 .source = where};
  family->read(fields, spec);
  fields.finish();
  return spec;
}

json to_hf_config(const ModelSpec& model) {
  const Family& family = family_of(model);
  json config{{"architectures", {family.architecture}}, {"model_type", family.model_type}, {"_name_or_path", model.id}};
  family.write(model, config);
  return config;
}

}  // namespace gpuplan
