// Commands of a shell script that may start a training: which launcher and which program, and their flags as they
// stand. ecosystem/launcher.cpp makes the parts of a question of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ecosystem/launch_rows.h"
#include "ecosystem/launcher.h"

namespace gpuplan {

/// A command that may start a training.
struct LaunchStart {
  const CommandRow* launcher = nullptr;
  const CommandRow* program = nullptr;  // null: a script that no row names
  const CommandRow* other = nullptr;
  std::string script;  // as it is named
  std::string folder;  // in which it runs (ecosystem/script_folder)
  int line = 1;
  bool is_known_by_words = false, under_srun = false;
  bool is_module = false;  // `script` is named as one: python -m package.train
  std::vector<LaunchFlag> launcher_flags, flags;
  std::vector<ShellWord> loose;  // arguments without a flag before them
  std::vector<std::string> open;
  std::map<std::string, ShellWord> environment;

  std::string what() const {
    const std::string by = launcher && !is_known_by_words ? launcher->name + " " : "";
    return by + (is_known_by_words && program ? program->name : script);
  }
};

/// Finds them all in a script, those of texts behind `bash -c` and `eval` too, and the files that it writes. `known`
/// are variables that are set before it starts. Throws InputError as read_shell does, and where there are too many.
std::vector<LaunchStart> find_starts(const ConfigFile& script, const std::map<std::string, std::string>& known,
                                     std::map<std::string, std::string>& written);

}  // namespace gpuplan
