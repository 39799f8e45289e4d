#include "models/hf_config.h"

#include <fmt/format.h>

#include "base/json_file.h"
#include "base/utf8.h"
#include "models/families.h"

namespace gpuplan {
namespace {

using nlohmann::json;

struct ConfigKind {
  std::string model_type, architecture;
};

ConfigKind read_kind(Fields& config) {
  ConfigKind kind{.model_type = config.optional_text("model_type").value_or(""), .architecture = {}};
  const json* list = config.find("architectures");
  if (list && (!list->is_array() || list->empty() || !list->front().is_string()))
    config.report("architectures", "must be a list with a class name, such as [\"LlamaForCausalLM\"]");
  else if (list)
    kind.architecture = list->front().get<std::string>();
  else if (kind.model_type.empty())
    config.report("model_type", "is missing, and so is architectures: which model is it?");
  return kind;
}

void refuse(Fields& config, const ConfigKind& kind) {
  const std::string& shown = kind.architecture.empty() ? kind.model_type : kind.architecture;
  if (const std::string reason = why_type_is_not_modelled(kind.model_type); !reason.empty())
    return config.report_here(
        fmt::format("'{}' (model_type '{}') cannot be planned: {}", shown, kind.model_type, reason),
        "modelled: " + modelled_families());
  if (const Family* row = find_family(kind.model_type, {}); row && !kind.model_type.empty())
    return config.report_here(
        fmt::format("architecture '{}' of model_type '{}' is not modelled", shown, kind.model_type),
        fmt::format("{} is modelled as {}", row->name, row->architecture));
  config.report_here(fmt::format("unknown architecture '{}' (model_type '{}')", shown, kind.model_type),
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

ModelSpec read_hf_config(Fields& top) {
  const std::size_t problems_before = top.num_problems();
  const ConfigKind kind = read_kind(top);
  const std::string origin = top.optional_text("_name_or_path").value_or("");
  if (top.num_problems() > problems_before) return {};
  const Family* family = find_family(kind.model_type, kind.architecture);
  if (!family) return refuse(top, kind), ModelSpec{};

  const bool is_wrapped = top.has("text_config") && !family->wrapper_type.empty();
  Fields fields = is_wrapped ? top.fields("text_config") : top;
  ModelSpec spec{.name = printable_line(origin.empty() ? kind.model_type : last_part(origin)),
                 .id = origin.empty() ? top.file() : origin,
                 .family = std::string(family->name),
                 .architecture = std::string(family->architecture),
                 .model_type = std::string(family->model_type),
                 .source = top.file()};
  family->read(fields, spec);
  spec.checkpoint = read_checkpoint_quant(top);
  json keys = fields.as_read();
  if (const json* quantised = top.find("quantization_config")) keys["quantization_config"] = *quantised;
  spec.config.keys = std::make_shared<const json>(std::move(keys));
  return spec;
}

ModelSpec parse_hf_config(const json& config, const std::string& where) {
  Fields top(config, where);
  ModelSpec spec = read_hf_config(top);
  top.finish(spec.family.empty() ? "a Hugging Face config.json is expected" : "");
  return spec;
}

json to_hf_config(const ModelSpec& model) {
  const Family& family = family_of(model);
  json config = model.config.keys ? *model.config.keys : json::object();
  config.update(
      {{"architectures", {family.architecture}}, {"model_type", family.model_type}, {"_name_or_path", model.id}});
  return config;
}

}  // namespace gpuplan
