// Python's text as tokens.
#pragma once

#include <cctype>
#include <string>
#include <vector>

namespace gpuplan {

struct PythonToken {
  enum class Kind { Name, Number, Text, Open, Close, Mark, NewLine };
  Kind kind = Kind::Mark;
  std::string text;  // of a text what stands between the quotes
  int line = 1, column = 0;
  std::size_t partner = 0;  // of a bracket the other one
  bool is_format = false;   // f"..."
};

inline bool is_name_begin(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c < 0; }
inline bool is_name_part(char c) { return is_name_begin(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Brackets know each other, and line ends inside brackets are left out. Throws InputError with "name:line" for a quote
/// or bracket that is not closed.
std::vector<PythonToken> read_python_tokens(const std::string& text, const std::string& name);

}  // namespace gpuplan
