#include "ecosystem/shell_text.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "ecosystem/shell_expansion.h"

namespace gpuplan {
namespace {

bool is_word_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

using Value = ShellValue;

class ShellReader : private ShellExpander {
 public:
  ShellReader(const std::string& text, const std::string& name, const std::vector<std::string>& wanted, ShellText& out)
      : ShellExpander(text, name),
        wanted_(wanted),
        out_(out) {}

  void know(const std::string& name, const std::string& value) { variables_.assign(name, {{value}, {}, false}); }

  void read() {
    while (at_ < text_.size()) read_command();
  }

 private:
  /// A word while it is read; parts without quotes may end it and begin the next.
  struct Building {
    ShellWord word;
    bool has_any = false;
  };

  void end_word(Building& now, std::vector<ShellWord>& words) {
    if (!now.has_any) return;
    spend(now.word.text.size() + 1);
    words.push_back(std::move(now.word));
    now = {};
    now.word.line = line_;
  }

  void add_text(Building& now, std::string_view text) {
    now.word.text += text;
    now.has_any = true;
    if (now.word.text.size() > kMostWordBytes) spend(now.word.text.size());
  }

  void add_unquoted(Building& now, const Value& value, std::vector<ShellWord>& words) {
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

  /// Names that stand in one item of an array as they were written; all of them where an expansion left it open and
  /// none stands in it, as with arithmetic.
  static std::vector<std::string> unknown_in(const Value& value, const std::string& item) {
    if (value.items.size() == 1 || item.find_first_of("$`") == std::string::npos)
      return value.items.size() == 1 ? value.unknown : std::vector<std::string>{};
    std::vector<std::string> names;
    for (const std::string& name : value.unknown)
      if (item.find(name) != std::string::npos) names.push_back(name);
    return names.empty() ? value.unknown : names;
  }

  void read_double_quotes(Building& now, std::vector<ShellWord>& words) {
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
        const Value value = expansion();
        for (std::size_t i = 0; i < value.items.size(); ++i) {
          if (i > 0) {
            end_word(now, words);
            now.has_any = true;
          }
          add_text(now, value.items[i]);
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

  void read_single_quotes(Building& now) {
    const int begin = line_;
    take();
    now.has_any = true;
    std::string inside;
    while (!is_end() && peek() != '\'') inside += take();
    if (is_end()) fail(begin, "the quote ' is not closed");
    take();
    add_text(now, inside);
  }

  bool is_word_end() const {
    return is_end() || is_space(peek()) || std::string_view(";&|<>()").find(peek()) != std::string_view::npos;
  }

  /// One word as it is written; expansions without quotes may make several of it, or none.
  void read_word(std::vector<ShellWord>& words) {
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

  /// NAME=, NAME+= or NAME[..]= where a word begins; its length up to the '=', else 0.
  std::size_t assignment_length() const {
    if (!is_name_start(peek())) return 0;
    std::size_t i = 0;
    while (is_name_char(peek(i))) ++i;
    if (peek(i) == '[')
      while (peek(i) != ']' && peek(i) != '\0' && peek(i) != '\n') ++i;
    if (peek(i) == ']') ++i;
    if (peek(i) == '+') ++i;
    return peek(i) == '=' ? i : 0;
  }

  std::vector<ShellWord> read_array() {
    const int begin = line_;
    std::vector<ShellWord> items;
    take();
    while (peek() != ')') {
      if (is_end()) fail(begin, "the bracket ( of an array is not closed");
      if (is_space(peek()))
        take();
      else if (peek() == '#')
        skip_comment();
      else if (is_word_end())
        take();
      else
        read_word(items);
    }
    take();
    return items;
  }

  std::pair<std::string, Value> read_assignment(std::size_t length) {
    std::string name = text_.substr(at_, length);
    skip(length + 1);
    const bool appends = name.ends_with("+");
    if (appends) name.pop_back();
    Value value;
    const bool is_array = peek() == '(';
    std::vector<ShellWord> items;
    if (is_array)
      items = read_array();
    else if (!is_word_end())
      read_word_whole(items);
    for (const ShellWord& item : items) {
      value.items.push_back(item.text);
      add_names(value.unknown, item.unknown);
    }
    value.is_array = is_array;
    if (!is_array && items.size() == 1 && !appends) value.begin = items[0].begin, value.end = items[0].end;
    if (!is_array && value.items.size() != 1) value.items = {value.joined()};
    if (const Value* before = find(name); appends && before) {
      Value both = *before;
      if (is_array)
        both.items.insert(both.items.end(), value.items.begin(), value.items.end());
      else
        both.items = {before->joined() + value.joined()};
      add_names(both.unknown, value.unknown);
      value = both;
    }
    if (const std::size_t index = name.find('['); index != std::string::npos) {
      name.resize(index);
      value = unknown_value("$" + name);
    }
    return {name, value};
  }

  /// The right side of an assignment is one word, whatever spaces its variables hold.
  void read_word_whole(std::vector<ShellWord>& items) {
    std::vector<ShellWord> parts;
    read_word(parts);
    if (parts.empty()) return;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      parts[0].text += " " + parts[i].text;
      add_names(parts[0].unknown, parts[i].unknown);
    }
    items.push_back(parts[0]);
  }

  void skip_comment() {
    while (!is_end() && peek() != '\n') take();
  }

  /// Skips, at '<' or '>', the redirection; keeps the delimiter of a here-document, and the file that is written.
  void read_redirection(std::string& target) {
    const bool is_output = peek() == '>';
    if (starts("<<<")) {
      skip(3);
    } else if (starts("<<")) {
      skip(2);
      heredoc_strips_ = peek() == '-';
      if (heredoc_strips_) take();
      while (is_blank(peek())) take();
      heredoc_is_literal_ = peek() == '\'' || peek() == '"' || peek() == '\\';
      std::vector<ShellWord> words;
      read_word(words);
      if (!words.empty()) heredoc_end_ = words[0].text;
      return;
    } else if (peek(1) == '(') {
      skip(2);
      until_closed('(', ')');
      return;
    } else {
      while (!is_end() && is_word_of({&text_[at_], 1}, {"<", ">", "&", "|"})) take();
    }
    while (is_blank(peek())) take();
    std::vector<ShellWord> words;
    if (!is_word_end()) read_word(words);
    if (is_output && !words.empty()) target = words[0].text;
  }

  std::string read_heredoc() {
    std::string body;
    while (!is_end()) {
      std::string line;
      while (!is_end() && peek() != '\n') line += take();
      if (!is_end()) take();
      std::string_view shown = line;
      while (heredoc_strips_ && shown.starts_with('\t')) shown.remove_prefix(1);
      if (trim(shown) == *heredoc_end_) break;
      body += std::string(shown) + "\n";
    }
    heredoc_end_.reset();
    if (heredoc_is_literal_ || body.size() > kMostWordBytes / 2) return body;
    for (std::size_t i = 0; i < body.size(); ++i)  // quotes stand for themselves here
      if (body[i] == '"' || body[i] == '\'') body.insert(i++, "\\");
    return expand(body).items[0];
  }

  /// Words of the language where a command begins. True when it was one.
  bool read_keyword(const std::string& word, std::vector<ShellWord>& words) {
    if (is_word_of(word, {"if", "while", "until", "!", "time"})) return true;
    if (is_word_of(word, {"then", "do", "{"})) return open_branch(), true;
    if (is_word_of(word, {"else", "elif"})) {
      variables_.close_branch();
      if (word == "else") open_branch();
      return true;
    }
    if (is_word_of(word, {"fi", "done", "esac", "}"})) return variables_.close_branch(), true;
    if (word == "case") {
      read_rest_of_line(words, "in");
      open_branch();
      words.clear();
      return true;
    }
    if (word == "for" || word == "select") {
      read_rest_of_line(words);
      read_loop_variable(words);
      words.clear();
      return true;
    }
    return false;
  }

  void read_rest_of_line(std::vector<ShellWord>& words, std::string_view last = "") {
    words.clear();
    while (!is_end() && peek() != '\n' && peek() != ';' &&
           (last.empty() || words.empty() || words.back().text != last)) {
      if (is_blank(peek()))
        take();
      else if (peek() == '#' && at_ > 0 && is_blank(text_[at_ - 1]))
        skip_comment();
      else if (is_word_end())
        take();
      else
        read_word(words);
    }
  }

  /// "x in 1e-4 2e-4": a single value is known.
  void read_loop_variable(const std::vector<ShellWord>& words) {
    if (words.empty() || !is_name_start(words[0].text[0])) return;
    const std::string& name = words[0].text;
    if (words.size() == 3 && words[1].text == "in" && words[2].unknown.empty())
      assign(name, Value{{words[2].text}, {}, false});
    else
      assign(name, Value{{"$" + name}, {"$" + name}, false});
  }

  void set_all(std::vector<std::pair<std::string, Value>>& assignments) {
    for (auto& [name, value] : assignments) assign(name, std::move(value));
    assignments.clear();
  }

  static ShellWord word_of(const Value& value, int line) {
    return {value.joined(), value.unknown, line, false, value.begin, value.end};
  }
  void finish_command(std::vector<ShellWord>& words, std::vector<std::pair<std::string, Value>>& assignments) {
    if (words.empty()) return set_all(assignments);
    if (is_word_of(words[0].text, {"export", "declare", "local", "readonly", "typeset"})) return set_all(assignments);
    if (words[0].text == "unset") {
      for (const ShellWord& word : words) variables_.forget(word.text);
      return;
    }
    if (words[0].text == "read" && words.size() > 1 && is_name_start(words.back().text[0]))
      assign(words.back().text, unknown_value("$" + words.back().text));
    ShellCommand command{.words = std::move(words), .environment = {}};
    for (const std::string& name : wanted_)
      if (const Value* value = find(name)) command.environment[name] = word_of(*value, command.words[0].line);
    for (const auto& [name, value] : assignments)
      if (std::find(wanted_.begin(), wanted_.end(), name) != wanted_.end())
        command.environment[name] = word_of(value, command.words[0].line);
    out_.commands.push_back(std::move(command));
  }

  /// The next word of a command where no word of the language stands.
  void read_part(std::vector<ShellWord>& words, std::vector<std::pair<std::string, Value>>& assignments) {
    const bool may_assign = words.empty() || is_word_of(words[0].text, {"export", "declare", "local", "readonly",
                                                                        "typeset", "env", "srun", "nohup"});
    const std::size_t length = may_assign ? assignment_length() : 0;
    if (length > 0) return void(assignments.push_back(read_assignment(length)));
    const bool is_first = words.empty();
    const bool is_quoted = peek() == '"' || peek() == '\'' || peek() == '$' || peek() == '\\';
    read_word(words);
    if (is_first && !words.empty() && !is_quoted && assignments.empty() && read_keyword(words[0].text, words))
      words.clear();
  }

  void read_command() {
    std::vector<ShellWord> words;
    std::vector<std::pair<std::string, Value>> assignments;
    std::string target, input;
    bool has_heredoc = false;
    while (!is_end()) {
      const char c = peek();
      if (is_blank(c)) {
        take();
      } else if (c == '#') {
        skip_comment();
      } else if (c == '<' || c == '>') {
        if (!words.empty() && words.back().text.size() == 1 && std::isdigit(words.back().text[0]) && at_ > 0 &&
            !is_blank(text_[at_ - 1]))
          words.pop_back();  // 2>
        read_redirection(target);
        has_heredoc = has_heredoc || heredoc_end_.has_value();
      } else if (c == '&' && peek(1) == '>') {
        take();
      } else if (is_word_end()) {  // newline ; & | ( )
        take();
        if (c == '\n' && heredoc_end_) {
          input = read_heredoc();
          if (!target.empty() && out_.written.size() < 64) out_.written[target] = input;
        }
        if (c == ';' && peek() == ';') {  // the next case is another branch
          variables_.close_branch();
          open_branch();
        }
        if (c == '\n' || !heredoc_end_) break;
      } else {
        read_part(words, assignments);
      }
    }
    if (has_heredoc && !words.empty() && words[0].text == "cat") return;
    if (has_heredoc && words.size() > 1 && words[0].text == "read")  // read -r -d '' NAME <<END
      return variables_.assign(words.back().text, {.items = {input}});
    if (has_heredoc && !words.empty() && is_word_of(words[0].text, {"sbatch", "bash", "sh"})) {
      const int line = words[0].line;  // `sbatch <<END`: a script as its input
      words = {{"bash", {}, line, false}, {"-c", {}, line, false}, {input, {}, line, false}};
    }
    finish_command(words, assignments);
  }

  const std::vector<std::string>& wanted_;
  ShellText& out_;
  std::optional<std::string> heredoc_end_;
  bool heredoc_strips_ = false, heredoc_is_literal_ = false;
};

}  // namespace

ShellText read_shell(const std::string& text, const std::string& name, const std::map<std::string, std::string>& known,
                     const std::vector<std::string>& wanted) {
  ShellText out;
  ShellReader reader(text, name, wanted, out);
  for (const auto& [variable, value] : known) reader.know(variable, value);
  reader.read();
  return out;
}

}  // namespace gpuplan
