#include "ecosystem/shell_condition.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "ecosystem/launch_rows.h"
#include "ecosystem/shell_arithmetic.h"

namespace gpuplan {
namespace {

using ConditionWords = std::span<const ShellWord>;

bool is_known(const ShellWord& word) { return word.unknown.empty(); }

/// A word of [[ ]] that stands for more texts than its own.
bool is_pattern(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

Truth compare_numbers(const ShellWord& a, const std::string& op, const ShellWord& b) {
  const auto x = shell_arithmetic(a.text), y = shell_arithmetic(b.text);
  if (!x || !y) return {};
  if (op == "-eq") return *x == *y;
  if (op == "-ne") return *x != *y;
  if (op == "-lt") return *x < *y;
  if (op == "-le") return *x <= *y;
  if (op == "-gt") return *x > *y;
  return *x >= *y;
}

/// One comparison: [! ] a, -n a, -z a, a = b, a -gt b.
Truth truth_of_comparison(ConditionWords words, bool has_patterns) {
  if (!words.empty() && words[0].text == "!" && words.size() > 1)
    return negated(truth_of_comparison(words.subspan(1), has_patterns));
  if (std::ranges::any_of(words, [](const ShellWord& w) { return !is_known(w); })) return {};
  if (words.empty()) return false;
  if (words.size() == 1) return !words[0].text.empty();
  const std::string& first = words[0].text;
  if (words.size() == 2) {
    if (first == "-n") return !words[1].text.empty();
    if (first == "-z") return words[1].text.empty();
    return {};  // of a file, of a terminal
  }
  if (words.size() != 3) return {};
  const std::string& op = words[1].text;
  const bool is_equal = op == "=" || op == "==";
  if (is_equal || op == "!=") {
    if (has_patterns && is_pattern(words[2].text)) return {};
    return (first == words[2].text) == is_equal;
  }
  const std::initializer_list<std::string_view> numbers{"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
  if (std::find(numbers.begin(), numbers.end(), op) == numbers.end()) return {};
  return compare_numbers(words[0], op, words[2]);
}

/// The inside of [[ ]]: comparisons with && before || between them.
Truth truth_of_expression(ConditionWords words) {
  for (const std::string_view op : {"||", "&&"})
    for (std::size_t i = words.size(); i-- > 0;)
      if (words[i].text == op) {
        const Truth left = truth_of_expression(words.subspan(0, i)), right = truth_of_expression(words.subspan(i + 1));
        return op == "||" ? either(left, right) : both(left, right);
      }
  return truth_of_comparison(words, true);
}

}  // namespace

Truth both(Truth a, Truth b) {
  if (a == false || b == false) return false;
  return a && b ? Truth(true) : std::nullopt;
}

Truth either(Truth a, Truth b) { return negated(both(negated(a), negated(b))); }

bool is_test(ConditionWords words) {
  return !words.empty() && (words[0].text == "[" || words[0].text == "[[" || words[0].text == "test");
}

Truth truth_of(ConditionWords words) {
  if (words.empty()) return {};
  const std::string& name = words[0].text;
  if (name == "true" || name == ":") return true;
  if (name == "false") return false;
  if (name == "test") return truth_of_comparison(words.subspan(1), false);
  if (name == "[" && words.back().text == "]") return truth_of_comparison(words.subspan(1, words.size() - 2), false);
  if (name == "[[" && words.back().text == "]]") return truth_of_expression(words.subspan(1, words.size() - 2));
  std::string command;
  for (const ShellWord& word : words) command += word.text + " ";
  return imports_absent_module(command) ? Truth(false) : std::nullopt;
}

Truth matches_pattern(const ShellWord& word, const ShellWord& pattern) {
  if (pattern.text == "*") return true;
  if (!is_known(word) || !is_known(pattern) || is_pattern(pattern.text)) return {};
  return word.text == pattern.text;
}

bool imports_absent_module(const std::string& command) {
  if (!command.starts_with("python") || command.find(" -c ") == std::string::npos) return false;
  return std::ranges::any_of(command_rows().absent_modules, [&](const std::string& module) {
    return command.find("import " + module) != std::string::npos;
  });
}

}  // namespace gpuplan
