// Python's text as tokens.
#pragma once

#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

struct PythonToken {
  enum class Kind { Name, Number, Text, Open, Close, Mark, NewLine };
  Kind kind = Kind::Mark;
  std::string text;  // of a text what stands between the quotes
  int line = 1, column = 0;
  std::size_t partner = 0;         // of a bracket the other one
  bool is_format = false;          // f"..."
  std::size_t begin = 0, end = 0;  // of its bytes in the text
};

inline bool is_name_begin(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c < 0; }
inline bool is_name_part(char c) { return is_name_begin(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The tokens of a text. Brackets know each other, and line ends inside brackets are left out.
class PythonTokens {
 public:
  /// Throws InputError with "name:line" for a quote or bracket that is not closed.
  PythonTokens(const std::string& text, const std::string& name);

  const PythonToken& operator[](std::size_t i) const { return tokens_[i]; }
  std::size_t size() const { return tokens_.size(); }

  bool is_mark(std::size_t i, std::string_view text) const;
  bool is_open(std::size_t i, char bracket) const;
  bool is_name(std::size_t i, std::string_view text) const;

  /// `a.b.c` from i on; i is behind it.
  std::string dotted(std::size_t& i) const;

  /// Moves behind the next comma of the bracket that ends at `end`.
  void skip_to_comma(std::size_t& i, std::size_t end) const;

  /// Functions of the text that call one of `names` and return something.
  std::set<std::string> functions_that_call(const std::vector<std::string>& names) const;

 private:
  std::vector<PythonToken> tokens_;
};

}  // namespace gpuplan
