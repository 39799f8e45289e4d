// Python scripts and notebooks that train: the literal arguments of the calls that load the model, add adapters and
// set up the trainer, as though they stood in a file. Which calls: data/ecosystem/python_calls.yaml.
#pragma once

#include "ecosystem/launcher.h"

namespace gpuplan {

/// Says whether a file is Python: by its name, or by a first line that names python.
bool is_python_script(const ConfigFile& file);

/// Says whether a notebook's Python sets up no training, so that its commands may start one.
bool is_notebook_of_commands(const ConfigFile& file);

/// Throws InputError where it sets up no trainer that is read, or one of another kind.
/// `flags` are those of the command that starts it.
Launch read_python_launch(const ConfigFile& script, const std::vector<LaunchFlag>& flags = {});

/// Says whether the script reads its own options and sets a training up with them.
bool reads_own_options(const ConfigFile& script);

}  // namespace gpuplan
