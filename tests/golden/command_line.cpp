#include "golden/command_line.h"

#include <charconv>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/files.h"
#include "cli/program.h"

namespace gpuplan::test {
namespace {

/// Lines `first` to `last` of a text, counted from 1.
std::string lines_of(const std::string& text, std::size_t first, std::size_t last) {
  std::istringstream lines(text);
  std::string kept, line;
  for (std::size_t number = 1; std::getline(lines, line); ++number)
    if (number >= first && number <= last) kept += line + "\n";
  return kept;
}

std::size_t number_at(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  REQUIRE_MESSAGE(error == std::errc{}, "not a number: ", std::string(text));
  return number;
}

/// What a filter of the pipe lets through.
std::string filtered(const std::string& text, const std::string& filter) {
  const std::vector<std::string> words = words_of(filter);
  REQUIRE(!words.empty());
  if (words[0] == "head" && words.size() == 2) return lines_of(text, 1, number_at(words[1].substr(1)));
  REQUIRE_MESSAGE((words[0] == "sed" && words.size() == 3 && words[1] == "-n"), "a pipe into ", filter);
  const std::size_t comma = words[2].find(',');
  return lines_of(text, number_at(words[2]), number_at(words[2].substr(comma + 1)));
}

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  char quote = 0;
  bool in_word = false;
  for (const char c : text) {
    const bool is_quote = c == '\'' || c == '"';
    if (quote == 0 && c == ' ') {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (quote == c)
      quote = 0;
    else if (quote == 0 && is_quote)
      quote = c;
    else
      words.back() += c;
  }
  return words;
}

Ran run_line(std::string_view line) {
  std::vector<std::string> filters;
  for (std::size_t pipe; (pipe = line.rfind(" | ")) != std::string_view::npos; line = line.substr(0, pipe))
    filters.insert(filters.begin(), std::string(line.substr(pipe + 3)));
  const std::size_t input = line.find(" < ");
  std::istringstream in(input == std::string_view::npos ? "" : read_file(std::string(line.substr(input + 3))));
  std::ostringstream out, err;
  Ran ran{.code = run(words_of(line.substr(0, input)), out, err, {}, in), .out = out.str(), .err = err.str()};
  for (const std::string& filter : filters) ran.out = filtered(ran.out, filter);
  return ran;
}

std::string with_answers_of_today(const std::string& page, std::string (*answer)(const std::string& output),
                                  int& num_questions) {
  constexpr std::string_view kPrompt = "$ gpuplan";
  std::string today;
  std::istringstream lines(page);
  bool is_answer = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) is_answer = false;
    if (!is_answer) today += line + "\n";
    if (!line.starts_with(kPrompt)) continue;
    is_answer = true;
    ++num_questions;
    const Ran ran = run_line(std::string_view(line).substr(kPrompt.size()));
    today += fmt::format("exit: {}\n{}{}", ran.code, answer(ran.out), ran.err);
  }
  return today;
}

bool is_updating() {
  const char* update = std::getenv("GPUPLAN_UPDATE_GOLDEN");
  return update && std::string(update) == "1";
}

}  // namespace gpuplan::test
