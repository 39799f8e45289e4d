#include "ecosystem/shell_words.h"

#include <algorithm>

namespace gpuplan {

bool is_word_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

namespace {

/// Names that stand in one item of an array as they were written; all of them where an expansion left it open and
/// none stands in it, as with arithmetic.
std::vector<std::string> unknown_in(const ShellValue& value, const std::string& item) {
  if (value.items.size() == 1 || item.find_first_of("$`") == std::string::npos)
    return value.items.size() == 1 ? value.unknown : std::vector<std::string>{};
  std::vector<std::string> names;
  for (const std::string& name : value.unknown)
    if (item.find(name) != std::string::npos) names.push_back(name);
  return names.empty() ? value.unknown : names;
}

}  // namespace

void ShellWordReader::end_word(Building& now, std::vector<ShellWord>& words) {
  if (!now.has_any) return;
  spend(now.word.text.size() + 1);
  words.push_back(std::move(now.word));
  now = {};
  now.word.line = line_;
}

void ShellWordReader::add_text(Building& now, std::string_view text) {
  now.word.text += text;
  now.has_any = true;
  if (now.word.text.size() > kMostWordBytes) spend(now.word.text.size());
}

void ShellWordReader::add_unquoted(Building& now, const ShellValue& value, std::vector<ShellWord>& words) {
  const std::string text = value.joined();
  const bool is_alone = !now.has_any && (is_end() || is_space(peek()) || peek() == ';' || peek() == '\\');
  for (const char c : text) {
    if (is_space(c)) {
      end_word(now, words);
      continue;
    }
    if (c == '$' || c == '`') add_names(now.word.unknown, value.unknown);
    if (!now.word.unknown.empty()) now.word.is_bare = is_alone && text.find(' ') == std::string::npos;
    add_text(now, {&c, 1});
  }
}

void ShellWordReader::read_double_quotes(Building& now, std::vector<ShellWord>& words) {
  const int begin = line_;
  take();
  now.has_any = true;
  while (peek() != '"') {
    if (is_end()) fail(begin, "the quote \" is not closed");
    if (peek() == '\\' && at_ + 1 < text_.size()) {
      take();
      const char c = take();
      if (c == '\n') continue;
      if (!is_word_of({&c, 1}, {"\"", "\\", "$", "`"})) add_text(now, "\\");
      add_text(now, {&c, 1});
    } else if (peek() == '$' || peek() == '`') {
      const bool begins = now.word.text.empty();
      const ShellValue value = expansion();
      const bool is_whole = begins && peek() == '"' && value.items.size() > 1 && !is_inside();  // "${ARGS[@]}"
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) {
          end_word(now, words);
          now.has_any = true;
        }
        add_text(now, value.items[i]);
        if (is_whole && i < value.places.size())
          now.word.begin = value.places[i].first, now.word.end = value.places[i].second;
        add_names(now.word.unknown, unknown_in(value, value.items[i]));
      }
      if (value.items.empty() && value.unknown.empty() && peek() == '"' && now.word.text.empty()) now.has_any = false;
      if (value.items.empty()) add_names(now.word.unknown, value.unknown);
      if (is_word_of(value.joined(), {"$@", "$*"})) now.word.is_bare = true;
    } else {
      const char c = take();
      add_text(now, {&c, 1});
    }
  }
  take();
}

void ShellWordReader::read_single_quotes(Building& now) {
  const int begin = line_;
  take();
  now.has_any = true;
  std::string inside;
  while (!is_end() && peek() != '\'') inside += take();
  if (is_end()) fail(begin, "the quote ' is not closed");
  take();
  add_text(now, inside);
}

bool ShellWordReader::is_word_end() const {
  return is_end() || is_space(peek()) || std::string_view(";&|<>()").find(peek()) != std::string_view::npos;
}

/// Stops at a backslash that was meant to go on with the next line, and stands before a blank instead.
void ShellWordReader::check_line_goes_on() const {
  std::size_t i = 0;
  const auto skip_blanks = [&] {
    while (is_blank(peek(i))) ++i;
  };
  if (!is_blank(peek())) return;
  skip_blanks();
  if (peek(i) == '#')
    while (peek(i) != '\n' && peek(i) != '\0') ++i;
  if (peek(i) != '\n') return;
  ++i;
  skip_blanks();
  if (peek(i) == '-')
    fail(line_, "a space stands behind the backslash: the command ends here, without the flags below",
         "make the backslash the last character of the line");
}

void ShellWordReader::read_word(std::vector<ShellWord>& words) {
  Building now;
  now.word.line = line_;
  const std::size_t begin = at_, num_before = words.size();
  while (!is_word_end()) {
    const char c = peek();
    if (c == '\\') {
      take();
      if (is_end()) break;
      if (peek() == '\n' || (peek() == '\r' && peek(1) == '\n')) {
        skip(peek() == '\r' ? 2 : 1);
        if (!now.has_any) return;
        if (is_word_end()) break;
        continue;
      }
      if (!now.has_any) check_line_goes_on();
      const char next = take();
      add_text(now, {&next, 1});
    } else if (c == '\'') {
      read_single_quotes(now);
    } else if (c == '"') {
      read_double_quotes(now, words);
    } else if (c == '$' && peek(1) == '\'') {
      take();
    } else if (c == '$' || c == '`') {
      add_unquoted(now, expansion(), words);
    } else {
      take();
      add_text(now, {&c, 1});
    }
  }
  end_word(now, words);
  if (words.size() != num_before + 1 || is_inside()) return;
  words.back().begin = begin;
  words.back().end = at_;
}

}  // namespace gpuplan
