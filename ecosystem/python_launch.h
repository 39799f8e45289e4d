// Python scripts and notebooks that train: the literal arguments of the calls that load the model, add adapters and
// set up the trainer, as though they stood in a file. Which calls: data/ecosystem/python_calls.yaml.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ecosystem/launcher.h"
#include "ecosystem/python_modules.h"

namespace gpuplan {

/// Says whether a file is Python: by its name, or by a first line that names python.
bool is_python_script(const ConfigFile& file);

/// Says whether a notebook's Python sets up no training, so that its commands may start one.
bool is_notebook_of_commands(const ConfigFile& file);

/// Holds what surrounds a script beside its flags.
struct PythonStart {
  std::int64_t num_gpus = 0;                     // 0: not said
  std::map<std::string, ShellWord> environment;  // variables that the command sets
};

/// Throws InputError where it sets up no trainer that is read, or one of another kind.
/// `started` are flags and file of the command that starts it.
Launch read_python_launch(const ConfigFile& script, const FindNamed& find = {}, const LaunchPart& started = {},
                          const PythonStart& start = {});

/// The library's class of settings that the script's parser fills from the flags of its command, GRPOConfig of
/// HfArgumentParser((OwnArguments, GRPOConfig)); empty: none.
std::string parsed_settings(const ConfigFile& script, const FindNamed& find);

/// A call whose keyword arguments state keys of a trainer's table.
struct KeywordCall {
  std::string name;
  std::vector<std::pair<std::string, std::string>> keywords;  // with their keys, where these have other names
  bool takes_all = false;                                     // the others are keys themselves
};
std::vector<KeywordCall> keyword_calls(const std::string& table);

/// Says whether a keyword of a library's call may be given as the trainer's own settings are: no other call takes it.
bool is_of_settings(const std::string& key);

/// Says whether the script sets a training up with options that it reads itself, or, where the command hands it a file
/// of settings, with values of that file.
bool reads_own_options(const ConfigFile& script, bool has_config = false);

}  // namespace gpuplan
