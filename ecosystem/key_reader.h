// Reads the keys of one file by the table of its format: facts of a set-up, notes on keys that are not counted,
// refusals of what would train something else.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ecosystem/config_reader.h"
#include "ecosystem/file_kind.h"
#include "ecosystem/key_table.h"
#include "ecosystem/setup.h"

namespace gpuplan {

/// One file with the facts that it states, and the keys that state them.
struct ReadFile {
  const KeyTable* table = nullptr;
  ConfigFile file;
  Setup setup;
  std::map<std::string_view, std::string> stated_by;  // fact: key
  std::optional<ConfigFile> engine;                   // DeepSpeed's settings that stand inside this file
  std::vector<const KeyRow*> idle;    // rows without the keys that they need: their defaults mean nothing
  bool is_guess = false;              // a script of an unknown kind: its program has other defaults
  std::string open_method;            // a flag of a script's own that says whether adapters are trained
  std::vector<std::string> mistyped;  // keys that are not known, and those that look like them
  nlohmann::json carried = nlohmann::json::object();  // what neither memory nor time depends on, as the file has it
  SettingsPart part{};                                // without the table and the keys
};

/// Fills `out`, whose table and file are set. `objective`: the method that flags name, where they do. Throws InputError
/// naming file and line of a key that is not understood.
void read_keys(ReadFile& out, const ParsedConfig& parsed, std::vector<std::string>& notes, std::string objective);

}  // namespace gpuplan
