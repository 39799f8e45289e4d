#include "ecosystem/key_table.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;

// More telling formats first: a TRL file holds keys of transformers, and not the other way round.
// clang-format off
constexpr std::array kFormats{
    "verl", "verl-megatron", "verl-sft", "verl-async", "verl-async-megatron", "nemo-rl", "nemo-rl-dpo", "nemo-rl-dpo-megatron", "nemo-rl-megatron",
    "prime-rl", "openrlhf", "open-instruct-grpo", "accelerate", "deepspeed", "torchtune", "torch", "unsloth",
    "megatron-ray", "megatron-swift", "torchtitan", "ms-swift", "open-instruct", "llama-factory-v1", "axolotl",
    "llama-factory", "peft-sft", "trl", "peft", "transformers", "launch", "unsloth-script", "trl-script",
    "transformers-script", "loop-script", "qlora-script", "alpaca-lora-script", "olmo-core-script"};
// clang-format on

/// Reads one data file. Every problem in it is a mistake of ours, so the first one ends it.
class TableReader {
 public:
  explicit TableReader(const std::string& name) : where_((data_dir() / "ecosystem" / (name + ".yaml")).string()) {
    table_.name = name;
    const auto tree = read_yaml11(where_);
    const json& top = tree->root;
    table_.title = text(top, "title");
    table_.framework = text(top, "framework");
    table_.source = text(top, "source");
    table_.role = role(text(top, "role"));
    table_.file = text(top, "file");
    table_.signs = texts(top, "signs");
    table_.hints = texts(top, "hints");
    table_.is_json = table_.file.ends_with(".json");
    table_.refuses_unknown = top.value("refuses_unknown", false);
    table_.own_scripts = top.value("own_scripts", false);
    table_.refuses_repeated = top.value("refuses_repeated", false);
    table_.takes_abbreviations = top.value("takes_abbreviations", false);
    table_.bare_switches = top.value("bare_switches", false);
    table_.has_head = top.value("has_head", true);
    table_.numbers_in_texts = texts(top, "numbers_in_texts");
    table_.usual_strategy = top.value("usual_strategy", "");
    table_.instead_of = top.value("instead_of", "");
    table_.base_key = top.value("base_key", "");
    table_.warmup_key = top.value("warmup_key", "");
    pairs(top, "where", [&](const json& a, const json& b) { table_.where.emplace_back(a, b); });
    pairs(top, "quantised_alone", [&](const json& a, const json& b) { table_.quantised_alone = {a, b}; });
    pairs(top, "versions", [&](const json& a, const json& b) { table_.versions.emplace_back(a, b); });
    pairs(top, "prefixes", [&](const json& a, const json& b) { table_.prefixes.emplace_back(a, b); });
    pairs(top, "assumes", [&](const json& a, const json& b) { table_.assumes.emplace_back(a, b); });
    pairs(top, "fixed", [&](const json& a, const json& b) { table_.fixed.emplace_back(a, b); });
    for (const json& row : list(top, "renamed"))
      table_.renamed.push_back({text(row, "key"), text(row, "to"), {row.at("since").at(0), row.at("since").at(1)}});
    for (const json& row : list(top, "used")) add_used(row);
    for (const json& group : list(top, "ignored")) add_group(group, KeyUse::Ignored);
    for (const json& group : list(top, "refused")) add_group(group, KeyUse::Refused);
    for (const auto& [fact, value] : table_.assumes)
      if (!find_setup_field(fact)) fail(fmt::format("assumes: unknown fact '{}'", fact));
    for (KeyRow& row : table_.rows) row.table = table_.name;
    for (const std::string& part : texts(top, "includes")) include(TableReader(part).take());
  }

  KeyTable take() { return std::move(table_); }

 private:
  [[noreturn]] void fail(const std::string& problem) const { throw InputError(where_, problem); }

  std::string text(const json& from, const char* key) const {
    if (!from.contains(key) || !from[key].is_string()) fail(fmt::format("{} must be a text", key));
    return from[key];
  }
  json list(const json& from, const char* key) const {
    const json found = from.contains(key) ? from[key] : json::array();
    if (!found.is_array()) fail(fmt::format("{} must be a list", key));
    return found;
  }
  std::vector<std::string> texts(const json& from, const char* key) const {
    std::vector<std::string> out;
    for (const json& item : list(from, key)) out.push_back(item);
    return out;
  }
  template <class Add>
  void pairs(const json& from, const char* key, Add add) const {
    for (const json& pair : list(from, key)) {
      if (!pair.is_array() || pair.size() != 2) fail(fmt::format("{} must hold pairs", key));
      add(pair[0], pair[1]);
    }
  }

  FileRole role(const std::string& word) const {
    if (word == "launcher") return FileRole::Launcher;
    if (word == "engine") return FileRole::Engine;
    if (word == "adapter") return FileRole::Adapter;
    if (word != "trainer") fail("role must be launcher, engine, trainer or adapter");
    return FileRole::Trainer;
  }

  void add(KeyRow row) {
    const auto is_same = [&](const KeyRow& other) { return other.key == row.key; };
    if (std::any_of(table_.rows.begin(), table_.rows.end(), is_same)) fail(fmt::format("{} comes twice", row.key));
    table_.rows.push_back(std::move(row));
  }

  /// The rows of another file, but for keys that this one describes itself.
  void include(KeyTable part) {
    for (KeyRow& row : part.rows)
      if (!table_.find(row.key)) table_.rows.push_back(std::move(row));
    table_.prefixes.insert(table_.prefixes.end(), part.prefixes.begin(), part.prefixes.end());
  }

  void add_used(const json& from) {
    KeyRow row{.key = text(from, "key"), .field = find_setup_field(text(from, "fact"))};
    if (!row.field) fail(fmt::format("{}: unknown fact '{}'", row.key, text(from, "fact")));
    pairs(from, "values", [&](const json& a, const json& b) { row.values.emplace_back(a, b); });
    row.num_written = row.values.size();
    pairs(from, "reads", [&](const json& a, const json& b) { row.values.emplace_back(a, b); });
    for (const auto& [in_file, means] : row.values) {
      if (!means.is_object()) continue;
      for (const auto& [fact, value] : means.items())
        if (!find_setup_field(fact)) fail(fmt::format("{}: unknown fact '{}'", row.key, fact));
    }
    if (from.contains("otherwise")) row.otherwise = from["otherwise"];
    row.needed_by = from.value("needed_by", "");
    row.needed_unless = from.value("needed_unless", "");
    if (!row.needed_by.empty() && !find_setup_field(row.needed_by))
      fail(fmt::format("{}: unknown fact '{}'", row.key, row.needed_by));
    row.is_joined = from.value("joined", false);
    pairs(from, "yields", [&](const json& a, const json& b) { row.yields.emplace_back(a, b); });
    row.any = from.value("any", json());
    row.each = from.value("each", "");
    row.each_split = from.value("each_split", "");
    row.each_share = from.value("each_share", "");
    pairs(from, "each_instead", [&](const json& a, const json& b) { row.each_instead.emplace_back(a, b); });
    row.needs = texts(from, "needs");
    pairs(from, "needs_item", [&](const json& a, const json& b) { row.needs_item = {a, b}; });
    pairs(from, "only_with", [&](const json& a, const json& b) { row.only_with = {a, b}; });
    pairs(from, "beside", [&](const json& a, const json& b) { row.beside.emplace_back(a, b); });
    for (const json& one : list(from, "demands"))
      row.demands.push_back({text(one, "key"), list(one, "values"), text(one, "reason")});
    row.with_item = from.value("with_item", json());
    row.is_written = from.value("written", true);
    for (const auto& [key, bound] : {std::pair{"since", &row.since}, std::pair{"before", &row.before}}) {
      if (!from.contains(key)) continue;
      const json& pair = from[key];
      if (!pair.is_array() || pair.size() != 2)
        fail(fmt::format("{}: {} must be a package and a version", row.key, key));
      *bound = std::pair(pair[0].get<std::string>(), pair[1].get<std::string>());
    }
    row.note = from.value("note", "");
    row.unknown = from.value("unknown", "");
    add(std::move(row));
  }

  void add_group(const json& from, KeyUse use) {
    for (const std::string& key : texts(from, "keys")) {
      KeyRow row{.key = key, .use = use, .reason = text(from, "reason")};
      row.rule = from.value("rule", "");
      for (const json& value : list(from, "harmless")) row.harmless.push_back(value);
      add(std::move(row));
    }
  }

  std::string where_;
  KeyTable table_;
};

}  // namespace

const KeyRow::Value* KeyRow::find_value(const nlohmann::json& in_file) const {
  const auto found = std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.first == in_file; });
  return found == values.end() ? nullptr : &*found;
}

bool KeyRow::takes_flags() const {
  const auto is_flag = [](const json& value) { return value.is_boolean(); };
  return (field && std::holds_alternative<Setup::Flag Setup::*>(field->member)) ||
         std::any_of(values.begin(), values.end(), [&](const Value& v) { return is_flag(v.first); }) ||
         std::any_of(harmless.begin(), harmless.end(), is_flag);
}

bool KeyTable::takes_texts_for_numbers(const std::string& key) const {
  return std::any_of(numbers_in_texts.begin(), numbers_in_texts.end(),
                     [&](const std::string& begin) { return key.starts_with(begin); });
}

const KeyRow* KeyTable::find(const std::string& key) const {
  for (const KeyRow& row : rows)
    if (row.key == key) return &row;
  const KeyRow* nearest = nullptr;  // the longest beginning
  for (const KeyRow& row : rows) {
    const bool is_above = row.key.ends_with(".*") && (key + ".").starts_with(row.key.substr(0, row.key.size() - 1));
    if (is_above && (!nearest || row.key.size() > nearest->key.size())) nearest = &row;
  }
  return nearest;
}

bool KeyTable::has_below(const std::string& key) const {
  return std::any_of(rows.begin(), rows.end(), [&](const KeyRow& row) { return row.key.starts_with(key + "."); });
}

std::string KeyTable::whole_key(const std::string& begin) const {
  if (!takes_abbreviations || find(begin) || has_below(begin)) return begin;
  const KeyRow* only = nullptr;
  for (const KeyRow& row : rows) {
    if (!row.key.starts_with(begin) || row.key.find('.') != std::string::npos) continue;
    if (only) return begin;
    only = &row;
  }
  return only ? only->key : begin;
}

namespace {

/// Says whether versions name the package, older than the bound.
bool is_before(const Versions& versions, const std::pair<std::string, std::string>& bound) {
  const auto version = version_of(versions, bound.first);
  return version && is_older(*version, bound.second);
}

}  // namespace

bool is_written_for(const KeyRow& row, const Versions& versions) {
  if (row.use != KeyUse::Used || !row.is_written) return false;
  return !(row.since && is_before(versions, *row.since)) && (!row.before || is_before(versions, *row.before));
}

bool has_effect(const KeyRow& row, const json& file) {
  const auto& [key, values] = row.only_with;
  if (key.empty()) return true;
  const json* const found = value_at(file, key);
  return std::ranges::find(values, found ? *found : json()) != values.end();
}

json in_keys_of(const KeyTable& table, json settings, const Versions& versions) {
  for (const RenamedKey& row : table.renamed) {
    const auto old = settings.find(row.key);
    if (old == settings.end() || is_before(versions, row.since)) continue;
    if (!settings.contains(row.to)) settings[row.to] = *old;
    settings.erase(row.key);
  }
  return settings;
}

nlohmann::ordered_json value_in_file(const KeyRow& row, const json& fact) {
  const auto first = row.values.begin(), last = first + std::ptrdiff_t(row.num_written);
  const auto pair = std::find_if(first, last, [&](const auto& p) { return p.second == fact; });
  if (pair != last) return pair->first;
  if (row.is_joined && fact.is_array()) return fmt::format("{}", fmt::join(fact.get<std::vector<std::string>>(), ","));
  return std::all_of(first, last, KeyRow::leaves_others) ? nlohmann::ordered_json(fact) : nlohmann::ordered_json();
}

namespace {

std::vector<KeyTable> read_tables() {
  std::vector<KeyTable> tables;
  for (const char* name : kFormats) tables.push_back(TableReader(name).take());
  return tables;
}

}  // namespace

std::span<const KeyTable> key_tables() { return read_once<read_tables>(); }

const KeyTable* find_key_table(std::string_view name) {
  const auto tables = key_tables();
  const auto found = std::find_if(tables.begin(), tables.end(), [&](const KeyTable& t) { return t.name == name; });
  return found == tables.end() ? nullptr : &*found;
}

const json* value_at(const json& top, const std::string& key) {
  const json* at = &top;
  for (const std::string& part : split(key, '.')) {
    if (!at->is_object() || !at->contains(part)) return nullptr;
    at = &(*at)[part];
  }
  return at;
}

const KeyTable& table_for(const KeyTable& table, const json& keys) {
  const auto word = [](const json& value) {  // a flag is a text still
    return to_lower(value.is_string() ? value.get<std::string>() : value.dump());
  };
  const auto holds = [&](const std::pair<std::string, json>& condition) {
    const json* const value = value_at(keys, condition.first);
    if (!value) return false;
    if (condition.second.empty()) return true;
    return std::ranges::any_of(value->is_array() ? *value : json::array({*value}), [&](const json& said) {
      return std::ranges::any_of(condition.second, [&](const json& one) { return word(one) == word(said); });
    });
  };
  for (const KeyTable& other : key_tables())
    if (other.instead_of == table.name && std::ranges::any_of(other.where, holds)) return table_for(other, keys);
  return table;
}

}  // namespace gpuplan
