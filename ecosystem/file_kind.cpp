#include "ecosystem/file_kind.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/toml_file.h"
#include "base/yaml_file.h"
#include "ecosystem/methods.h"

namespace gpuplan {
namespace {

using nlohmann::json;

std::vector<std::string> signs_in(const KeyTable& table, const json& top) {
  std::vector<std::string> found;
  for (const std::string& sign : table.signs)
    if (value_at(top, sign)) found.push_back(sign);
  return found;
}

std::string kinds() {
  std::string names;
  for (const KeyTable& table : key_tables()) names += (names.empty() ? "" : ", ") + table.title;
  return names;
}

/// Refuses rows where a trainer's settings are asked.
void refuse_data(const std::string& name) {
  for (const std::string_view ending : {".jsonl", ".csv", ".parquet", ".arrow"})
    if (name.ends_with(ending))
      throw InputError(name, "holds data, and the file of a trainer is asked",
                       "name the trainer's file, which names its data; --data and --lengths of estimate read rows");
}

std::shared_ptr<ValueTree> parse_tree_of(const ConfigFile& file) {
  refuse_data(file.name);
  const std::size_t start = file.text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos)
    throw InputError(file.name, "the file is empty", fmt::format("read are: {}", kinds()));
  const bool is_json = file.text[start] == '{';
  require_size(file.text.size(), file.name, is_json ? kPlanLimit : kTrainerLimit);
  if (file.name.ends_with(".toml")) return parse_toml(file.text, file.name);
  if (!is_json) return parse_yaml11(file.text, file.name, DuplicateKeys::LastWins);
  auto tree = std::make_shared<ValueTree>();
  tree->file = file.name;
  tree->root = parse_json(file.text, file.name);
  return tree;
}

/// LLaMA-Factory and torchtune (OmegaConf) and DeepSpeed stop at a key that comes twice.
void refuse_repeated(ValueTree& tree, const ConfigFile& file) {
  if (tree.format == FileFormat::Json) static_cast<void>(parse_json(file.text, file.name, DuplicateKeys::Refuse));
  tree.problems.insert(tree.problems.end(), tree.repeated.begin(), tree.repeated.end());
  tree.finish("keep one of them");
}

void refuse_foreign_program(const json& top, const std::string& name) {
  if (const auto program = find_foreign_program(top))
    throw InputError(
        name,
        fmt::format("is a file of {} ({}), which gpuplan does not read", program->name, fmt::join(program->keys, ", ")),
        fmt::format("say the same with flags (--model, --lora, --seq-len ...); read are: {}", kinds()));
}

/// A file with DeepSpeed's own section is DeepSpeed's, whatever else somebody wrote into it.
bool is_surely_of(const KeyTable& table, const json& top) {
  return table.role == FileRole::Engine && top.contains("zero_optimization");
}

/// The one trainer that knows all keys of a file, one of which speaks for it; nullptr: none.
const KeyTable* hinted_table(const json& top) {
  const auto is_there = [&](const std::string& hint) { return value_at(top, hint) != nullptr; };
  const KeyTable* hinted = nullptr;
  for (const KeyTable& table : key_tables()) {
    if (table.role != FileRole::Trainer || !table.instead_of.empty()) continue;
    const bool knows_all = std::ranges::all_of(
        top.items(), [&](const auto& item) { return table.find(item.key()) || table.has_below(item.key()); });
    if (!knows_all) continue;
    if (hinted || table.signs.empty() || !std::ranges::any_of(table.hints, is_there)) return nullptr;
    hinted = &table;
  }
  return hinted;
}

const KeyTable& table_of_keys(const json& top, const std::string& name) {
  refuse_foreign_program(top, name);
  const KeyTable* found = hinted_table(top);
  if (found) return *found;
  for (const KeyTable& table : key_tables()) {
    if (signs_in(table, top).empty()) continue;
    if (!found) {
      found = &table;
      continue;
    }
    // transformers' keys are also those of TRL and LLaMA-Factory, which come before it
    if (table.name == "transformers" || (found->role == table.role && table.name == "trl")) continue;
    std::vector<std::string> others = signs_in(table, top);  // that the first program does not have too
    std::erase_if(
        others, [&](const std::string& sign) { return found->find(sign) || names_foreign_method(found->name, sign); });
    if (others.empty() || is_surely_of(*found, top)) continue;
    throw InputError(name,
                     fmt::format("has keys of {} ({}) and of {} ({})", found->title,
                                 fmt::join(signs_in(*found, top), ", "), table.title, fmt::join(others, ", ")),
                     "one file belongs to one program");
  }
  if (!found)
    throw InputError(name, "its keys are of no program that gpuplan reads", fmt::format("read are: {}", kinds()));
  return *found;
}

/// Says whether a file is the settings of a script of one's own: the program would stop at a key, others know each key
/// that speaks for the program, and one of the keys that it stops at.
bool is_of_nobody(const KeyTable& table, const json& top) {
  if (!table.refuses_unknown || table.role != FileRole::Trainer) return false;
  const auto is_known_elsewhere = [&](const std::string& key) {
    return std::ranges::any_of(key_tables(), [&](const KeyTable& other) {
      return &other != &table && other.role == FileRole::Trainer && other.find(key);
    });
  };
  const std::vector<std::string> signs = signs_in(table, top);
  if (signs.size() > 1 || !std::ranges::all_of(signs, is_known_elsewhere)) return false;
  return std::ranges::any_of(top.items(), [&](const auto& item) {
    return !table.find(item.key()) && !table.has_below(item.key()) && is_known_elsewhere(item.key());
  });
}

}  // namespace

const KeyTable& table_of_flags(const json& top, const std::string& name) {
  if (const auto program = find_foreign_program(top); program && program->keys.size() > 1)
    refuse_foreign_program(top, name);
  const KeyTable* best = nullptr;
  std::ptrdiff_t most = 0;
  for (const KeyTable& table : key_tables()) {
    const bool is_hinted = table.signs.empty() && std::ranges::any_of(table.hints, [&](const std::string& hint) {
                             return value_at(top, hint) != nullptr;
                           });
    const bool may_be = table.name == "transformers" || is_hinted || !signs_in(table, top).empty();
    if (table.role != FileRole::Trainer || !may_be) continue;
    const auto known = std::count_if(top.items().begin(), top.items().end(), [&](const auto& item) {
      return table.find(item.key()) != nullptr || table.has_below(item.key());
    });
    if (known > most) {
      most = known;
      best = &table;
    }
  }
  if (!best)
    throw InputError(name, "its flags are of no program that gpuplan reads", fmt::format("read are: {}", kinds()));
  return *best;
}

ParsedConfig parse_config(const ConfigFile& file, const KeyTable* expected) {
  ParsedConfig parsed{.tree = parse_tree_of(file)};
  const json& top = parsed.tree->root;
  if (!top.is_object()) throw InputError(file.name, "expected keys and values", fmt::format("read are: {}", kinds()));
  if (top.contains("schema_version")) return parsed;
  if (top.contains("model_type") && top.contains("hidden_size"))
    throw InputError(file.name, "is a model's config", fmt::format("give it as --model {}", file.name));
  if (expected) refuse_foreign_program(top, file.name);
  parsed.table = expected ? expected : &table_of_keys(top, file.name);
  if (!expected && is_of_nobody(*parsed.table, top)) {
    parsed.table = &table_of_flags(top, file.name);
    parsed.is_guess = true;
  }
  if (parsed.table->refuses_repeated) refuse_repeated(*parsed.tree, file);
  return parsed;
}

}  // namespace gpuplan
