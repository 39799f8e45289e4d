// Flags of a script that no program is known for: what looks like batch, length or rank must be counted.
#pragma once

#include <string>

#include "ecosystem/key_table.h"
#include "ecosystem/launcher.h"

namespace gpuplan {

/// Throws InputError where a flag looks so, and neither `table`, by which the flags are read, nor another trainer's
/// word for the length knows it. `script` holds the command that starts `started`.
void refuse_open_flags(const std::string& script, const LaunchPart& part, const KeyTable& table,
                       const std::string& started);

/// Says whether a script takes flags that the program of its name stops at: then it is another of that name.
bool has_unknown_flags(const LaunchPart& part, const KeyTable& table);

/// Says whether some trainer's flag of this name is the length of its rows.
bool is_length_elsewhere(const std::string& flag);

}  // namespace gpuplan
