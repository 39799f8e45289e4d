#include "validate/aliases.h"

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

void read_list(JsonFields& fields, const char* key, std::vector<std::string>& out) {
  const json* list = fields.find(key);
  if (!list || !list->is_array()) return fields.report(key, "expected a list");
  for (const json& one : *list) {
    if (!one.is_string()) return fields.report(key, "expected a list of texts");
    out.push_back(one.get<std::string>());
  }
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
  FrameworkAlias alias{.norm = fields.optional_string("norm").value_or(""),
                       .software = fields.optional_string("software").value_or(""),
                       .text = fields.optional_string("text").value_or(""),
                       .record = fields.require_string("record"),
                       .loss = fields.optional_string("loss").value_or(""),
                       .fsdp_version = int(fields.optional_int("fsdp_version", {1, 2}).value_or(1)),
                       .double_quant = fields.optional_bool("double_quant").value_or(false),
                       .loss_chunk_tokens = fields.optional_int("loss_chunk_tokens", {1, 1 << 20}),
                       .lora_dropout = fields.optional_number("lora_dropout").value_or(0),
                       .grad_accum = fields.optional_int("grad_accum", {1, 1 << 20}).value_or(1)};
  fields.refuse_unknown();
  fields.finish();
  return alias;
}

NetworkAlias read_network(const json& value, const std::string& where) {
  JsonFields fields(value, where);
  NetworkAlias alias{.gbit_per_node = fields.optional_number("gbit_per_node").value_or(0),
                     .gbit_per_gpu = fields.optional_number("gbit_per_gpu").value_or(0)};
  if ((alias.gbit_per_node > 0) == (alias.gbit_per_gpu > 0))
    fields.report("gbit_per_node", "or gbit_per_gpu is needed");
  fields.refuse_unknown();
  fields.finish();
  return alias;
}

SlotAlias read_slots(const json& value, const std::string& where) {
  JsonFields fields(value, where);
  SlotAlias alias{.pcie_generation = fields.optional_int("pcie_generation", {1, 7}).value_or(0),
                  .pcie_lanes = fields.optional_int("pcie_lanes", {1, 16}).value_or(0)};
  if (!alias.pcie_generation || !alias.pcie_lanes) fields.report("pcie_generation", "and pcie_lanes are needed");
  fields.require_string("source");
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
  read_texts(fields, "checkpointings", table.checkpointings);
  read_texts(fields, "lengths", table.lengths);
  read_texts(fields, "flops_kinds", table.flops_kinds);
  each(fields, "networks", [&](const std::string& name, const json& value) {
    table.networks[name] = read_network(value, fmt::format("{}: networks: {}", where, name));
  });
  each(fields, "slots", [&](const std::string& name, const json& value) {
    table.slots[name] = read_slots(value, fmt::format("{}: slots: {}", where, name));
  });
  read_modules(fields, "lora_targets", table.lora_targets);
  read_modules(fields, "trained_modules", table.trained_modules);
  each(fields, "gpus", [&](const std::string& name, const json& value) {
    table.gpus[name] = read_gpu(value, fmt::format("{}: gpus: {}", where, name));
  });
  each(fields, "quants", [&](const std::string& name, const json& value) {
    table.quants[name] = read_quant(value, fmt::format("{}: quants: {}", where, name));
  });
  if (const json* rows = fields.find("frameworks"); !rows || !rows->is_array())
    fields.report("frameworks", "expected a list");
  read_list(fields, "optimizers_in_backward", table.optimizers_in_backward);
  fields.refuse_unknown();
  fields.finish();
  for (const json& row : content["frameworks"])
    table.frameworks.push_back(
        read_framework(row, fmt::format("{}: frameworks: {}", where, table.frameworks.size() + 1)));
  return table;
}

AliasTable AliasTable::read() { return read(data_dir() / "validation" / "aliases.json"); }

const std::string& alias_or_self(const std::map<std::string, std::string>& names, const std::string& text) {
  const auto found = names.find(text);
  return found == names.end() ? text : found->second;
}

}  // namespace gpuplan
