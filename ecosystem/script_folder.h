// The folder in which the commands of a script run, as its `cd` commands say: files that a command names lie there.
// Nothing is looked up; a folder that only a run would know is none.
#pragma once

#include <string>

#include "ecosystem/shell_text.h"

namespace gpuplan {

class ScriptFolder {
 public:
  /// `script`: its path, as it was given.
  explicit ScriptFolder(const std::string& script);

  /// Takes a command into account: `cd "$(dirname "$0")"`, `cd configs`, `cd "${0%/*}/.."`.
  void take(const ShellCommand& command);

  /// Relative to the current folder, or absolute; empty: the current one, or not known.
  const std::string& text() const { return now_; }

 private:
  std::string own_, now_;
};

/// The path of a file that a command names in such a folder.
std::string in_script_folder(const std::string& folder, const std::string& named);

}  // namespace gpuplan
