// What stands behind '$' in the text of a shell script: variables, arithmetic, commands whose output is known.
#pragma once

#include <cstddef>
#include <string>

#include "ecosystem/shell_cursor.h"
#include "ecosystem/shell_variables.h"

namespace gpuplan {

/// A word has at most so many bytes.
inline constexpr std::size_t kMostWordBytes = std::size_t(1) << 16;

class ShellExpander : protected ShellCursor {
 protected:
  using ShellCursor::ShellCursor;

  /// Counts bytes of words. Throws InputError where variables grow without end.
  void spend(std::size_t bytes);
  const ShellValue* find(const std::string& name);
  void assign(const std::string& name, ShellValue value);
  void open_branch();
  /// The value of a text in double quotes, read by the same rules.
  ShellValue expand(const std::string& text);
  /// Reads an expansion, at '$' or '`'.
  ShellValue expansion();
  /// Of a text that is expanded, not of the script's.
  bool is_inside() const { return nesting_ > 0; }

  ShellVariables variables_;

 private:
  ShellValue arithmetic(const std::string& expression);
  /// Gives what a command would print; of `expr 16 / $N` it is known.
  ShellValue command_value(const std::string& command);
  /// `name` with what follows it in ${name...}.
  ShellValue parameter(const std::string& name, const std::string& rest);
  ShellValue element(const std::string& name, const std::string& index);
  /// Expands what stands between ${ and }.
  ShellValue braces(const std::string& inside);

  std::size_t spent_ = 0;
  int nesting_ = 0;
};

}  // namespace gpuplan
