// The command lines of launchers and trainers: the rows of data/ecosystem/launchers.yaml.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpuplan {

/// A launcher, a program that trains, or one that is known and not planned (`why`).
struct CommandRow {
  std::string name, source, why;
  std::vector<std::vector<std::string>> words;  // how a command begins
  std::vector<std::string> scripts, modules;    // what stands behind python or a launcher, with "*" for any text
  std::string table, section, engine, launcher, starts;
  std::vector<std::string> config, engine_config, module, switches;
  std::vector<std::string> config_folder, own_configs;  // flag of the folder of `config`; names that are no file
  std::vector<std::vector<std::string>> means;          // flag, key, value
  std::vector<std::vector<std::string>> switched;       // flag without which, and without a file, a section is not read
  std::vector<std::pair<std::string, std::string>> says;  // keys of the table, and the values that it stands for
  bool takes_pairs = false;

  bool has_switch(const std::string& flag) const;
  bool names_module(const std::string& flag) const;
};

struct CommandRows {
  std::vector<CommandRow> launchers, programs, others;
  std::vector<std::string> not_starting;
  std::vector<std::string> absent_modules;   // of Python, of accelerators that are not planned
  std::vector<std::string> decides, beside;  // parts of names of flags

  /// Says whether a flag of an unknown script looks as though it said batch, length or rank of the training.
  bool looks_deciding(const std::string& flag) const;
};

/// Throws InputError for a broken data file.
const CommandRows& command_rows();

/// The row that a script or a module belongs to; nullptr: none.
const CommandRow* find_script(std::span<const CommandRow> rows, const std::string& script, bool is_module);

/// Says whether a row knows a script by its name alone, which scripts of others may have too.
bool is_known_by_bare_name(const CommandRow& row, const std::string& script);

const CommandRow* find_launcher(const std::string& name);

}  // namespace gpuplan
