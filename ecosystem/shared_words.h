// Settings without effect on memory and time that several trainers have under names of their own
// (data/ecosystem/shared_words.yaml): export carries them from one's file to another's.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ecosystem/key_table.h"

namespace gpuplan {

struct SharedWord {
  std::string setting;
  std::vector<std::string> methods;                       // of which alone it is; empty: of all
  std::vector<std::pair<std::string, std::string>> keys;  // table that has the row, key
  /// Keys of the file that is read, and their values with which it means another thing.
  std::vector<std::pair<std::string, nlohmann::json>> unless;

  bool is_of(std::string_view method) const;
  /// Says whether a file with these settings means it by its key.
  bool holds_in(const nlohmann::json& settings) const;
  /// The key of a format; empty: it has none.
  std::string key_in(const KeyTable& table) const;
};

std::span<const SharedWord> shared_words();

/// Says whether a key of a format is such a setting.
bool is_shared_word(const KeyTable& table, const std::string& key);

}  // namespace gpuplan
