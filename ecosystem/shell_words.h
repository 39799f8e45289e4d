// Words of a shell script as it is read: quotes, backslashes, and expansions that make one word or several.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "ecosystem/shell_expansion.h"
#include "ecosystem/shell_text.h"

namespace gpuplan {

bool is_word_of(std::string_view word, std::initializer_list<std::string_view> words);

class ShellWordReader : protected ShellExpander {
 protected:
  using ShellExpander::ShellExpander;

  /// One word as it is written; expansions without quotes may make several of it, or none.
  void read_word(std::vector<ShellWord>& words);
  bool is_word_end() const;

 private:
  /// A word while it is read; parts without quotes may end it and begin the next.
  struct Building {
    ShellWord word;
    bool has_any = false;
  };

  void check_line_goes_on() const;
  void end_word(Building& now, std::vector<ShellWord>& words);
  void add_text(Building& now, std::string_view text);
  void add_unquoted(Building& now, const ShellValue& value, std::vector<ShellWord>& words);
  void read_double_quotes(Building& now, std::vector<ShellWord>& words);
  void read_single_quotes(Building& now);
};

}  // namespace gpuplan
