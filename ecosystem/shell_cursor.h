// A place in the text of a shell script that moves on, with its line.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace gpuplan {

inline bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
inline bool is_name_char(char c) { return is_name_start(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool is_space(char c) { return is_blank(c) || c == '\n'; }

struct ShellCursor {
  ShellCursor(std::string text, const std::string& name) : text_(std::move(text)), name_(name) {}

  bool is_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts(std::string_view with) const { return std::string_view(text_).substr(at_, with.size()) == with; }
  char take();
  void skip(std::size_t count);

  /// Up to the bracket that closes the one before; quotes and brackets inside are whole. Throws InputError where there
  /// is none.
  std::string until_closed(char open, char close);

  [[noreturn]] void fail(int line, const std::string& problem, const std::string& hint = {}) const;

  std::string text_;
  const std::string& name_;  // of the file
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace gpuplan
