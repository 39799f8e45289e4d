// Flags of a command as the tree of values that a file of the same program gives.
#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json_file.h"
#include "base/names.h"
#include "ecosystem/key_table.h"
#include "ecosystem/launcher.h"
#include "ecosystem/open_flags.h"

namespace gpuplan {
namespace {

using nlohmann::json;

std::optional<json> number_in(const std::string& text) {
  std::int64_t whole = 0;
  const char* const end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, whole); read.ec == std::errc{} && read.ptr == end)
    return whole;
  if (const auto number = as_number(text)) return *number;
  return std::nullopt;
}

/// The words that argparse of HfArgumentParser, click and pydantic take for true and false.
std::optional<json> flag_in(const std::string& text) {
  const std::string word = to_lower(text);
  if (word == "true" || word == "yes") return true;
  if (word == "false" || word == "no") return false;
  return std::nullopt;
}

/// A value with the type that its row asks for; without a row, what it looks like.
json typed(const KeyRow* row, const std::string& text) {
  if (row && row->find_value(text)) return text;
  if (text.starts_with("{") || text.starts_with("["))
    if (auto value = json_in(text)) return *std::move(value);  // else "[q_proj,v_proj]"
  if (text.starts_with("[") && text.ends_with("]")) {
    json words = json::array();
    for (const std::string& word : split(text.substr(1, text.size() - 2), ','))
      words.push_back(std::string(trim(word)));
    return words;
  }
  if (!row || row->takes_flags() || row->use != KeyUse::Used)
    if (const auto flag = flag_in(text)) return *flag;
  if (text == "None" || text == "null" || text == "none") {
    if (!row || row->find_value(json())) return json();
    if (row->use != KeyUse::Used) return json();
  }
  const bool is_text = row && row->field &&
                       (std::holds_alternative<Setup::Word Setup::*>(row->field->member) ||
                        std::holds_alternative<Setup::Words Setup::*>(row->field->member));
  const bool is_flag = row && row->takes_flags() && (text == "0" || text == "1");  // which the reader knows
  if (const auto number = number_in(text); number && (!is_text || is_flag || row->find_value(*number))) return *number;
  return text;
}

json value_of(const KeyRow* row, const LaunchFlag& flag) {
  if (flag.values.empty()) return true;
  if (flag.values.size() == 1) return typed(row, flag.values[0].text);
  json list = json::array();
  for (const ShellWord& word : flag.values) list.push_back(word.text);
  return list;
}

void put(json& root, const std::string& key, const json& value) {
  json* at = &root;
  const std::vector<std::string> parts = split(key, '.');
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    json& below = (*at)[parts[i]];
    if (!below.is_object()) below = json::object();
    at = &below;
  }
  (*at)[parts.back()] = value;
}

/// Gives the place of a key in the tree: below a mapping, as the file of `below` may spell it without the prefix.
std::string place_of(const KeyTable* table, const ValueTree* below, const std::string& key) {
  if (!table || !below) return key;
  for (const auto& [mapping, prefix] : table->prefixes)
    if (const std::string whole = mapping + "." + prefix; key.starts_with(whole)) {
      const std::string bare = key.substr(whole.size());
      const auto& root = below->root;
      if (root.contains(mapping) && root[mapping].is_object() && root[mapping].contains(bare))
        return mapping + "." + bare;
    }
  return key;
}

}  // namespace

std::shared_ptr<ValueTree> tree_of(const LaunchPart& part, const std::string& script, const KeyTable* table,
                                   const ValueTree* below, std::vector<std::string>& notes,
                                   const std::vector<std::string>& said) {
  auto tree = std::make_shared<ValueTree>();
  if (below) {
    *tree = *below;
  } else {
    tree->file = script;
    tree->root = json::object();
  }
  for (const LaunchFlag& flag : part.flags) {
    std::string name = table ? table->whole_key(flag.name) : flag.name;
    bool is_off = false;
    if (table && !table->find(name) && name.starts_with("no_") && flag.values.empty() && table->find(name.substr(3))) {
      name = name.substr(3);
      is_off = true;
    }
    const std::string key = place_of(table, below, name);
    if (key.size() > 200 || std::count(key.begin(), key.end(), '.') > 8 || key.empty() || key.front() == '.' ||
        key.back() == '.')
      continue;
    const KeyRow* row = table ? table->find(name) : nullptr;
    const std::string& file = flag.file.empty() ? script : flag.file;
    std::vector<std::string> unknown;
    for (const ShellWord& value : flag.values)
      unknown.insert(unknown.end(), value.unknown.begin(), value.unknown.end());
    const bool is_asked = row ? row->use != KeyUse::Ignored && row->any.is_null() : table && is_length_elsewhere(name);
    if (!unknown.empty() && is_asked) {
      const std::string why =
          fmt::format("depends on {}, which the script does not set to one value", fmt::join(unknown, ", "));
      const std::initializer_list<std::string_view> lacked{
          "model",     "visible_gpus", "num_processes",  "num_machines", "processes_per_machine",
          "data_sets", "prompt_len",   "completion_len",  // --model, --gpus and --data say them
          "epochs",    "max_steps",                       // --epochs and --rows say how much is trained
          "evaluates", "held_out",     "best_at_end",    "finds_unused"};  // evaluation stands beside the steps of the
                                                                           // training
      const bool may_lack =
          row && row->field && std::find(lacked.begin(), lacked.end(), row->field->name) != lacked.end();
      const std::string fact = row && row->field ? std::string(row->field->name) : row ? "" : "seq_len";
      const bool is_said = std::find(said.begin(), said.end(), fact) != said.end();
      if (!may_lack && !is_said)
        throw InputError(fmt::format("{}:{}: {}", file, flag.line, flag.name), why,
                         "write the value there, or set it above");
      notes.push_back(fmt::format("{}:{}: {} {}", file, flag.line, flag.name, why));
      if (fact != "data_sets") continue;  // which is written back as it stands
    }
    if (row && row->field && row->field->name == "data_sets" && flag.values.empty()) continue;  // "--dataset", left out
    put(tree->root, key, is_off ? json(false) : value_of(row, flag));
    tree->places[key] = {
        .line = flag.line, .key_line = flag.line, .order = 0, .file = below || !flag.file.empty() ? file : ""};
  }
  return tree;
}

}  // namespace gpuplan
