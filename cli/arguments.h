// From argv to a command and the values of its flags. CLI11 cuts the arguments up and knows which flags exist; what is
// wrong with them is said by us, as an InputError like every other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cluster/cluster_spec.h"
#include "models/hub/hub.h"

namespace gpuplan {

struct Parsed {
  const Command* command = nullptr;
  const CLI::App* app = nullptr;  // of the command, or the whole program
  bool wants_help = false, wants_version = false, wants_licences = false;
  bool wants_short_help = false;  // -h
};

/// The screen as --color and --format of these arguments have it, where they are well spelt.
Screen screen_for(const std::vector<std::string>& args, Screen screen);

/// Declares every command of the table with its flags.
void declare_commands(CLI::App& app);
/// The same, but with the flags of those alone that the arguments may mean.
void declare_commands(CLI::App& app, const std::vector<std::string>& args);

/// Throws InputError for an unknown command or flag (with the nearest), a missing value, a flag given twice, a number
/// out of its range (cli/flag_ranges.h).
Parsed parse(CLI::App& app, const std::vector<std::string>& args);

/// Declares a flag with a value ("N"), an optional value ("[SPEC]"), or none (""). The range of a number
/// (cli/flag_ranges.h) stands behind the help.
CLI::Option* add_flag(CLI::App& app, const std::string& name, const std::string& value, const std::string& help,
                      const std::string& group = "Options", Declared declared = Declared::IfNamed);

/// The value of a flag or positional; empty when not given, "" for a flag without value.
std::optional<std::string> given(const CLI::App& app, const std::string& name);
/// Every value of a positional that may be repeated.
std::vector<std::string> all_given(const CLI::App& app, const std::string& name);
bool is_given(const CLI::App& app, const std::string& name);

/// Places to look for models of the Hub: the environment's settings (models/hub/hub.h), and --offline.
HubSettings given_hub(const CLI::App& app);

/// The machine of --gpus, or of --cluster with --num-gpus and --gpu; empty when neither is given. Throws InputError.
std::optional<ClusterSpec> given_machine(const CLI::App& app);

}  // namespace gpuplan
