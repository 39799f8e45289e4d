#include "planner/validation/aliases.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// Calls `read(name, value)` for every entry of the object under `key`.
template <class Read>
void each(JsonFields& fields, const char* key, Read read) {
  const json* object = fields.find(key);
  if (!object || !object->is_object()) {
    fields.report(key, "expected an object");
    return;
  }
  for (const auto& [name, value] : object->items()) read(name, value);
}

void read_texts(JsonFields& fields, const char* key, std::map<std::string, std::string>& out) {
  each(fields, key, [&](const std::string& name, const json& value) {
    if (value.is_string())
      out[name] = value.get<std::string>();
    else
      fields.report(key, fmt::format("'{}' is no text", name));
  });
}

/// "a|b, c": modules between commas.
void read_modules(JsonFields& fields, const char* key, std::map<std::string, std::vector<std::string>>& out) {
  std::map<std::string, std::string> texts;
  read_texts(fields, key, texts);
  for (const auto& [name, text] : texts)
    for (const std::string& module : split(text, ',')) out[name].emplace_back(trim(module));
}

GpuAlias read_gpu(const json& value, const std::string& where) {
  JsonFields fields(value, where);
  GpuAlias alias{.gpu = fields.require_string("gpu"), .memory_gib = fields.optional_number("memory_gib")};
  if (alias.memory_gib) fields.require_string("source");
  fields.refuse_unknown();
  fields.finish();
  return alias;
}

QuantAlias read_quant(const json& value, const std::string& where) {
  JsonFields fields(value, where);
  QuantAlias alias{.kind = fields.require_string("kind"), .is_double = fields.optional_bool("double").value_or(false)};
  fields.refuse_unknown();
  fields.finish();
  return alias;
}

FrameworkAlias read_framework(const json& value, const std::string& where) {
  JsonFields fields(value, where);
  FrameworkAlias alias{.norm = fields.require_string("norm"),
                       .text = fields.optional_string("text").value_or(""),
                       .record = fields.require_string("record"),
                       .until_then = fields.optional_string("until_then").value_or(""),
                       .fsdp_version = int(fields.optional_int("fsdp_version", {1, 2}).value_or(1)),
                       .double_quant = fields.optional_bool("double_quant").value_or(false),
                       .loss_chunk_tokens = fields.optional_int("loss_chunk_tokens", {1, 1 << 20}),
                       .lora_dropout = fields.optional_number("lora_dropout").value_or(0)};
  fields.refuse_unknown();
  fields.finish();
  return alias;
}

}  // namespace

AliasTable AliasTable::read(const std::filesystem::path& file) {
  const json content = read_json_file(file);
  const std::string where = file.string();
  JsonFields fields(content, where);
  AliasTable table;
  fields.find("about");
  read_texts(fields, "models", table.models);
  read_texts(fields, "optimizers", table.optimizers);
  read_modules(fields, "lora_targets", table.lora_targets);
  read_modules(fields, "trained_modules", table.trained_modules);
  each(fields, "gpus", [&](const std::string& name, const json& value) {
    table.gpus[name] = read_gpu(value, fmt::format("{}: gpus: {}", where, name));
  });
  each(fields, "quants", [&](const std::string& name, const json& value) {
    table.quants[name] = read_quant(value, fmt::format("{}: quants: {}", where, name));
  });
  for (const char* list : {"frameworks", "pending_models"})
    if (const json* rows = fields.find(list); !rows || !rows->is_array()) fields.report(list, "expected a list");
  fields.refuse_unknown();
  fields.finish();
  table.pending_models = content["pending_models"].get<std::vector<std::string>>();
  for (const json& row : content["frameworks"])
    table.frameworks.push_back(read_framework(row, fmt::format("{}: frameworks: {}", where, table.frameworks.size() + 1)));
  return table;
}

AliasTable AliasTable::read() { return read(data_dir() / "validation" / "aliases.json"); }

const std::string& alias_or_self(const std::map<std::string, std::string>& names, const std::string& text) {
  const auto found = names.find(text);
  return found == names.end() ? text : found->second;
}

}  // namespace gpuplan
