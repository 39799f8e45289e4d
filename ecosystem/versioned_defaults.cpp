#include "ecosystem/versioned_defaults.h"

#include <fmt/format.h>

#include "models/framework.h"

namespace gpuplan {

using nlohmann::json;

json VersionedDefaults::usual(const KeyTable& table, const KeyRow& row) {
  const bool is_checkpointing = row.field->name == "checkpointing", is_bf16 = row.field->name == "bf16";
  if (!row.otherwise.is_boolean() || !(is_checkpointing || is_bf16) || table.framework.empty()) return row.otherwise;
  note_older(row.key, is_bf16 ? "defaults.precision" : "defaults.checkpointing", table.framework);
  if (versions_.empty()) return row.otherwise;
  const FrameworkDefaults usual = resolve_framework(table.framework, {.given = versions_, .date = {}}).defaults;
  if (is_bf16 && usual.precision)
    return *usual.precision == Precision::Bf16Mixed || *usual.precision == Precision::Bf16True;
  if (is_checkpointing && usual.checkpointing) return *usual.checkpointing == Checkpointing::Full;
  return row.otherwise;
}

void VersionedDefaults::settle_loaded(Setup& setup, const std::string& record) {
  constexpr std::string_view kPath = "load.dtype", kOfQuantised = "load.quantised_dtype";
  if (setup.dtype != "unstated") return;
  note_older("dtype", kPath, record);
  const auto facts = facts_for(stack_versions(versions_, record), record);
  const json* const quantised = setup.quant_bits ? fact(facts, kOfQuantised) : nullptr;
  const json* const loaded = quantised ? quantised : fact(facts, kPath);
  setup.dtype = loaded && *loaded == "fp32" ? "fp32" : "auto";
}

std::string VersionedDefaults::note() const {
  if (older_.empty()) return {};
  return fmt::format("not stated, and taken as the newest version does: {}; --versions takes another",
                     fmt::join(older_, ", "));
}

/// Where versions are given, nothing is left to say.
void VersionedDefaults::note_older(const std::string& key, std::string_view path, const std::string& record) {
  if (!versions_.empty()) return;
  for (const Library& library : libraries())
    for (const StackFact& fact : library.facts)
      if (!fact.awaits && library.is_under(record) && fact.path == path && fact.before)
        older_.push_back(
            fmt::format("{} (before {} {}: {})", key, library.name, fact.before->text, fact.value.get<std::string>()));
}

}  // namespace gpuplan
