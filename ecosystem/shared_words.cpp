#include "ecosystem/shared_words.h"

#include <algorithm>

#include "base/error.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;

std::vector<SharedWord> read_shared_words() {
  const std::string where = (data_dir() / "ecosystem" / "shared_words.yaml").string();
  const auto tree = read_yaml11(where);
  std::vector<SharedWord> words;
  try {
    for (const json& row : tree->root.at("rows")) {
      SharedWord word{row.at("setting"), row.value("methods", std::vector<std::string>{}), {}, {}};
      for (const auto& [table, key] : row.at("keys").items()) word.keys.emplace_back(table, key);
      for (const json& pair : row.value("unless", json::array())) word.unless.emplace_back(pair.at(0), pair.at(1));
      words.push_back(std::move(word));
    }
  } catch (const json::exception& error) { throw InputError(where, error.what()); }
  return words;
}

}  // namespace

bool SharedWord::is_of(std::string_view method) const {
  return methods.empty() || std::ranges::find(methods, method) != methods.end();
}

bool SharedWord::holds_in(const json& settings) const {
  return std::ranges::none_of(unless, [&](const auto& pair) {
    const json* const value = value_at(settings, pair.first);
    return value && *value == pair.second;
  });
}

std::string SharedWord::key_in(const KeyTable& table) const {
  const auto is_its = [&](const auto& named) {
    const KeyRow* const row = table.find(named.second);
    return row && (table.name == named.first || row->table == named.first);
  };
  const auto found = std::ranges::find_if(keys, is_its);
  return found == keys.end() ? "" : found->second;
}

std::span<const SharedWord> shared_words() { return read_once<read_shared_words>(); }

bool is_shared_word(const KeyTable& table, const std::string& key) {
  return std::ranges::any_of(shared_words(), [&](const SharedWord& word) { return word.key_in(table) == key; });
}

}  // namespace gpuplan
