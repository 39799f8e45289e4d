#include "validate/aliases.h"

#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

void read_texts(Fields& fields, const char* key, std::map<std::string, std::string>& out) {
  Fields texts = fields.fields(key);
  for (const std::string& name : texts.keys()) out[name] = texts.text(name);
}

/// Every object of the object under `key`, by its name.
template <class Alias, class Read>
void read_each(Fields& fields, const char* key, std::map<std::string, Alias>& out, Read read) {
  Fields all = fields.fields(key);
  for (const std::string& name : all.keys()) {
    Fields row = all.fields(name);
    out[name] = read(row);
    row.refuse_unknown();
  }
}

/// "a|b, c": modules between commas.
void read_modules(Fields& fields, const char* key, std::map<std::string, std::vector<std::string>>& out) {
  std::map<std::string, std::string> texts;
  read_texts(fields, key, texts);
  for (const auto& [name, text] : texts)
    for (const std::string& module : split(text, ',')) out[name].emplace_back(trim(module));
}

GpuAlias read_gpu(Fields& row) {
  GpuAlias alias{.gpu = row.text("gpu"), .memory_gib = row.optional_number("memory_gib")};
  if (alias.memory_gib) row.text("source");
  return alias;
}

QuantAlias read_quant(Fields& row) {
  return {.kind = row.text("kind"), .is_double = row.optional_flag("double").value_or(false)};
}

FrameworkAlias read_framework(Fields& row) {
  return {.norm = row.optional_text("norm").value_or(""),
          .software = row.optional_text("software").value_or(""),
          .text = row.optional_text("text").value_or(""),
          .record = row.text("record"),
          .loss = row.optional_text("loss").value_or(""),
          .fsdp_version = narrow<int>(row.optional_integer("fsdp_version", {1, 2}).value_or(1)),
          .is_kbit_prepared = row.optional_flag("kbit_prepared").value_or(false),
          .double_quant = row.optional_flag("double_quant").value_or(false),
          .sharded_heading = row.optional_text("sharded_heading").value_or(""),
          .loss_chunk_tokens = row.optional_integer("loss_chunk_tokens", {1, 1 << 20}),
          .lora_dropout = row.optional_number("lora_dropout").value_or(0),
          .grad_accum = row.optional_integer("grad_accum", {1, 1 << 20}).value_or(1)};
}

NetworkAlias read_network(Fields& row) {
  NetworkAlias alias{.gbit_per_node = row.optional_number("gbit_per_node").value_or(0),
                     .gbit_per_gpu = row.optional_number("gbit_per_gpu").value_or(0)};
  if ((alias.gbit_per_node > 0) == (alias.gbit_per_gpu > 0)) row.report("gbit_per_node", "or gbit_per_gpu is needed");
  return alias;
}

SlotAlias read_slots(Fields& row) {
  SlotAlias alias{.generations_back = row.integer("generations_back", {0, 3}),
                  .share_of_lanes = row.number("share_of_lanes", {.least = 1.0 / 16, .most = 1})};
  row.text("source");
  return alias;
}

double read_rate(Fields& row) {
  row.text("source");
  return row.number("share", {.least = 0.1, .most = 1});
}

}  // namespace

AliasTable AliasTable::read(const std::filesystem::path& file) {
  const nlohmann::json content = read_json_file(file);
  Fields fields(content, file.string());
  AliasTable table;
  fields.allow({"about"});
  read_texts(fields, "dates", table.dates);
  read_texts(fields, "models", table.models);
  read_texts(fields, "optimizers", table.optimizers);
  read_texts(fields, "checkpointings", table.checkpointings);
  read_texts(fields, "losses", table.losses);
  read_texts(fields, "lengths", table.lengths);
  read_texts(fields, "flops_kinds", table.flops_kinds);
  read_each(fields, "networks", table.networks, read_network);
  read_each(fields, "slots", table.slots, read_slots);
  read_each(fields, "attention_rates", table.attention_rates, read_rate);
  read_modules(fields, "lora_targets", table.lora_targets);
  read_modules(fields, "trained_modules", table.trained_modules);
  read_each(fields, "gpus", table.gpus, read_gpu);
  read_each(fields, "quants", table.quants, read_quant);
  fields.objects("frameworks", table.frameworks,
                 [](Fields& row, FrameworkAlias& alias) { alias = read_framework(row); });
  fields("whole_sequences", table.whole_sequences);
  read_each(fields, "dropouts", table.dropouts, read_rate);
  fields("optimizers_in_backward", table.optimizers_in_backward);
  fields.refuse_unknown();
  fields.finish();
  return table;
}

std::string AliasTable::date_of(std::string_view source) const {
  const std::pair<const std::string, std::string>* found = nullptr;
  for (const auto& row : dates)  // the longest beginning
    if (source.starts_with(row.first) && (!found || row.first.size() > found->first.size())) found = &row;
  return found ? found->second : "";
}

AliasTable AliasTable::read() { return read(data_dir() / "validation" / "aliases.json"); }

const std::string& alias_or_self(const std::map<std::string, std::string>& names, const std::string& text) {
  const auto found = names.find(text);
  return found == names.end() ? text : found->second;
}

}  // namespace gpuplan
