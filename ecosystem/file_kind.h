// Which program a configuration file belongs to, by its keys.
#pragma once

#include <memory>
#include <string>

#include "base/value_tree.h"
#include "ecosystem/key_table.h"

namespace gpuplan {

struct ConfigFile {
  std::string name, text;
  std::string other{};  // another file that the same name could mean, which is not read; empty: none
};

struct ParsedConfig {
  const KeyTable* table = nullptr;  // null: a plan of gpuplan
  std::shared_ptr<ValueTree> tree;  // values as the program itself reads them
  bool is_program = false;          // a command starts the program itself
  bool is_guess = false;            // flags of a script that may take others than the table knows
};

/// JSON where the text begins with '{', else YAML. Throws InputError when it is neither, when no format has such keys,
/// and when two have. With `expected` it is a file of that format, whatever its keys.
ParsedConfig parse_config(const ConfigFile& file, const KeyTable* expected = nullptr);

/// The trainer's format that knows most of these flags of a script that nobody knows. Throws InputError where they are
/// those of another program, or of none.
const KeyTable& table_of_flags(const nlohmann::json& top, const std::string& name);

}  // namespace gpuplan
