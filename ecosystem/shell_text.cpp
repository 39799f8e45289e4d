#include "ecosystem/shell_text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "ecosystem/shell_condition.h"
#include "ecosystem/shell_words.h"

namespace gpuplan {
namespace {

constexpr int kMostConditions = 64;

using Value = ShellValue;

class ShellReader : private ShellWordReader {
 public:
  ShellReader(const std::string& text, const std::string& name, const std::vector<std::string>& wanted, ShellText& out)
      : ShellWordReader(text, name),
        wanted_(wanted),
        out_(out) {}

  void know(const std::string& name, const std::string& value) { variables_.assign(name, {{value}, {}, false}); }

  void read() {
    while (at_ < text_.size()) {
      const Operator behind = behind_;
      if (behind != Operator::None) open(branch_of(behind == Operator::Or ? negated(goes_on_) : goes_on_));
      read_command();
      if (behind != Operator::None) close();
      if (ends_case_) close(), read_patterns();
    }
  }

 private:
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
      if (is_array) value.places.emplace_back(item.begin, item.end);
      add_names(value.unknown, item.unknown);
    }
    value.is_array = is_array;
    if (!is_array && items.size() == 1 && !appends) value.begin = items[0].begin, value.end = items[0].end;
    if (!is_array && value.items.size() != 1) value.items = {value.joined()};
    if (const Value* before = find(name); appends && before) {
      Value both = *before;
      if (is_array) {
        both.places.resize(both.items.size());
        both.items.insert(both.items.end(), value.items.begin(), value.items.end());
        both.places.insert(both.places.end(), value.places.begin(), value.places.end());
      }
      if (!is_array) both.items = {before->joined() + value.joined()};
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

  // --- branches ---
  static BranchIs branch_of(Truth truth) {
    return !truth ? BranchIs::Open : *truth ? BranchIs::Taken : BranchIs::Skipped;
  }

  void open(BranchIs branch) {
    open_branch();
    branches_.push_back(branch);
  }

  void close() {
    if (branches_.empty()) return;
    variables_.close_branch(branches_.back());
    branches_.pop_back();
  }

  bool is_skipped() const { return std::ranges::find(branches_, BranchIs::Skipped) != branches_.end(); }

  /// A command behind a test and && or || is a branch; other commands are taken to succeed.
  enum class Operator : std::uint8_t { None, And, Or };

  void go_on(Operator ended_by, std::span<const ShellWord> words) {
    const Operator behind = std::exchange(behind_, Operator::None);
    if (ended_by == Operator::None || (!is_test(words) && behind == Operator::None)) return;
    Truth now = is_test(words) ? truth_of(words) : Truth(true);
    if (is_negated_) now = negated(now);
    goes_on_ = behind == Operator::And ? both(goes_on_, now) : behind == Operator::Or ? either(goes_on_, now) : now;
    behind_ = ended_by;
  }

  /// Branches of one `if` or `case`: whether one before is taken, and whether this one's condition holds.
  struct Choice {
    Truth before = false;
    Truth now;
    ShellWord word;  // of `case`
  };

  BranchIs next_branch() {
    Choice& choice = choices_.back();
    const Truth is_taken = both(negated(choice.before), choice.now);
    choice.before = either(choice.before, choice.now);
    return branch_of(is_taken);
  }

  /// Words of a command of a condition, up to an operator; of [[ ]] with the operators inside.
  std::vector<ShellWord> condition_words() {
    std::vector<ShellWord> words;
    while (!is_end()) {
      if (is_blank(peek())) {
        take();
      } else if (!is_word_end()) {
        read_word(words);
      } else if (!words.empty() && words[0].text == "[[" && words.back().text != "]]" && peek() != '\n') {
        const bool is_pair = peek() == peek(1);
        words.push_back({text_.substr(at_, is_pair ? 2 : 1), {}, line_});
        skip(is_pair ? 2 : 1);
      } else if (peek() == '<' || peek() == '>') {
        std::string target;
        if (!words.empty() && words.back().text == "2") words.pop_back();  // 2>
        read_redirection(target);
      } else {
        break;
      }
    }
    return words;
  }

  Truth condition_part() {
    while (is_space(peek())) take();
    if (peek() == '!' && is_space(peek(1))) return take(), negated(condition_part());
    const bool is_group = peek() == '(' || (peek() == '{' && is_space(peek(1)));
    if (!is_group) return truth_of(condition_words());
    if (starts("((")) return take(), take(), until_closed('(', ')'), skip(1), std::nullopt;
    take();
    const Truth inside = condition_list();
    while (is_space(peek()) || peek() == ';') take();
    if (peek() == '}' || peek() == ')') take();
    return inside;
  }

  Truth condition_list() {
    if (++depth_ > kMostConditions) fail(line_, "is nested too deeply");
    Truth truth = condition_part();
    while (true) {
      while (is_blank(peek())) take();
      const bool is_and = starts("&&");
      if (!is_and && !starts("||")) break;
      skip(2);
      const Truth next = condition_part();
      truth = is_and ? both(truth, next) : either(truth, next);
    }
    --depth_;
    const bool is_piped = peek() == '|' || peek() == '&';
    return is_piped ? std::nullopt : truth;
  }

  /// The truth of what follows up to `then`; the place stays.
  Truth condition() {
    const std::size_t at = at_;
    const int line = line_;
    const auto end = heredoc_end_;
    const Truth truth = condition_list();
    at_ = at, line_ = line, heredoc_end_ = end;
    return truth;
  }

  /// "a|b)" where a branch of `case` begins.
  void read_patterns() {
    while (is_space(peek()) || peek() == '#') peek() == '#' ? skip_comment() : void(take());
    if (is_end() || (starts("esac") && !is_name_char(peek(4)))) return;
    if (peek() == '(') take();
    Choice& choice = choices_.back();
    choice.now = false;
    while (!is_end() && peek() != ')' && peek() != '\n') {
      std::vector<ShellWord> words;
      if (is_word_end())
        take();
      else
        read_word(words);
      for (const ShellWord& pattern : words) choice.now = either(choice.now, matches_pattern(choice.word, pattern));
    }
    if (peek() == ')') take();
    open(next_branch());
  }

  void read_case(std::vector<ShellWord>& words) {
    read_rest_of_line(words, "in");
    choices_.push_back({.word = words.size() > 1 ? words[0] : ShellWord{}});
    words.clear();
    read_patterns();
  }

  /// `else` and `elif`: the branch before ends.
  void read_other_branch(bool is_last) {
    close();
    if (choices_.empty()) choices_.emplace_back();
    choices_.back().now = is_last ? Truth(true) : condition();
    if (is_last) open(next_branch());
  }

  void end_choice() {
    close();
    if (!choices_.empty()) choices_.pop_back();
  }

  /// Words of the language where a command begins. True when it was one.
  bool read_keyword(const std::string& word, std::vector<ShellWord>& words) {
    if (word == "if") return choices_.push_back({.now = condition()}), true;
    if (word == "!") return is_negated_ = true;
    if (is_word_of(word, {"while", "until", "time"})) return true;
    if (word == "then" && !choices_.empty()) return open(next_branch()), true;
    if (is_word_of(word, {"then", "do", "{"})) return open(BranchIs::Open), true;
    if (is_word_of(word, {"else", "elif"})) return read_other_branch(word == "else"), true;
    if (is_word_of(word, {"fi", "esac"})) return end_choice(), true;
    if (is_word_of(word, {"done", "}"})) return close(), true;
    if (word == "case") return read_case(words), true;
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

  void export_name(const std::string& name) {
    constexpr std::size_t kMostExported = 64;
    if (exported_.size() < kMostExported && is_name_start(name[0])) exported_.insert(name);
  }

  static ShellWord word_of(const Value& value, int line) {
    return {value.joined(), value.unknown, line, false, value.begin, value.end};
  }
  void finish_command(std::vector<ShellWord>& words, std::vector<std::pair<std::string, Value>>& assignments) {
    if (words.empty()) return set_all(assignments);
    if (words[0].text == "export") {
      for (std::size_t i = 1; i < words.size(); ++i) export_name(words[i].text);
      for (const auto& assignment : assignments) export_name(assignment.first);
    }
    if (is_word_of(words[0].text, {"export", "declare", "local", "readonly", "typeset"})) return set_all(assignments);
    if (words[0].text == "unset") {
      for (const ShellWord& word : words) variables_.forget(word.text);
      return;
    }
    if (words[0].text == "read" && words.size() > 1 && is_name_start(words.back().text[0]))
      assign(words.back().text, unknown_value("$" + words.back().text));
    if (is_skipped()) return;
    ShellCommand command{.words = std::move(words), .environment = {}};
    for (const std::string& name : wanted_)
      if (const Value* value = find(name)) command.environment[name] = word_of(*value, command.words[0].line);
    for (const std::string& name : exported_)
      if (const Value* value = find(name)) command.environment[name] = word_of(*value, command.words[0].line);
    for (const auto& [name, value] : assignments) command.environment[name] = word_of(value, command.words[0].line);
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
    Operator ended_by = Operator::None;
    ends_case_ = is_negated_ = false;
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
          if (!target.empty() && out_.written.size() < 64 && !is_skipped()) out_.written[target] = input;
        }
        if (c == ';' && peek() == ';' && !choices_.empty()) take(), ends_case_ = true;
        if ((c == '&' || c == '|') && peek() == c) take(), ended_by = c == '&' ? Operator::And : Operator::Or;
        if (c == '\n' || !heredoc_end_) break;
      } else {
        read_part(words, assignments);
      }
    }
    go_on(ended_by, words);
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
  std::set<std::string> exported_;  // variables that commands start with
  std::vector<BranchIs> branches_;  // that stand open
  std::vector<Choice> choices_;
  Operator behind_ = Operator::None;
  Truth goes_on_;
  bool ends_case_ = false, is_negated_ = false;
  int depth_ = 0;
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
