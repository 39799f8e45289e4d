// Shell scripts as people paste them: commands with their words after quotes, variables and arithmetic on literals.
// Nothing is executed; a value that only a run would show is named instead.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace gpuplan {

struct ShellWord {
  std::string text;                  // a value that is not known stands as it was written: "out-$SEED"
  std::vector<std::string> unknown;  // the variables and commands that it would take to know it: "$SEED", "$(nproc)"
  int line = 1;
  bool is_bare = false;            // an unknown value without quotes: it may be several words, or none
  std::size_t begin = 0, end = 0;  // bytes of the script's text; alike where it does not stand there as one word
};

struct ShellCommand {
  std::vector<ShellWord> words;  // never empty
  std::map<std::string, ShellWord> environment;
};

struct ShellText {
  std::vector<ShellCommand> commands;
  std::map<std::string, std::string> written;  // files that `cat > name <<END` writes
};

/// Reads a script. `known` are variables that are set before it starts; of `wanted`, and of those that the script
/// exports, each command gets the values that it starts with. A value that depends on a condition or a loop is not
/// known after it. Throws InputError with "name:line" for a quote or bracket that is not closed, and for texts that
/// grow without end.
ShellText read_shell(const std::string& text, const std::string& name, const std::map<std::string, std::string>& known,
                     const std::vector<std::string>& wanted);

}  // namespace gpuplan
