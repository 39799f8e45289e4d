#include "questions/hints.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <CLI/CLI.hpp>

#include "cli/arguments.h"
#include "cli/commands.h"

namespace gpuplan::test {
namespace {

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; }

/// Recognises a flag of a script that stands before it: "scripts/fit_speed.py --ablate --write".
bool is_of_script(std::string_view before) {
  const std::size_t script = before.rfind(".py");
  if (script == std::string_view::npos) return false;
  const std::string_view between = before.substr(script + 3);
  const bool has_words_alone = std::all_of(between.begin(), between.end(), [](char c) { return c != '.' && c != ','; });
  return has_words_alone && between.find_first_not_of(" \n") == between.find("--");
}

std::map<std::string, std::set<std::string>> all_flags() {
  CLI::App app;
  declare_commands(app);
  std::map<std::string, std::set<std::string>> flags;
  const auto add = [&](const std::string& command, const CLI::App& of) {
    for (const CLI::Option* option : of.get_options())
      for (const std::string& name : option->get_lnames()) {
        flags[command].insert("--" + name);
        flags[""].insert("--" + name);
      }
  };
  add("", app);
  for (const Command& command : commands()) {
    add(command.name, app);  // --help, --version
    add(command.name, *app.get_subcommand(command.name));
  }
  return flags;
}

}  // namespace

std::vector<std::string> flags_in(std::string_view text) {
  std::vector<std::string> found;
  for (std::size_t at = text.find("--"); at != std::string_view::npos; at = text.find("--", at + 2)) {
    const bool begins = at == 0 || (!is_of_word(text[at - 1]) && text[at - 1] != '\'' && text[at - 1] != '"');
    std::size_t end = at + 2;
    while (end < text.size() && is_of_word(text[end])) ++end;
    std::string flag(text.substr(at, end - at));
    while (flag.size() > 2 && flag.ends_with('-')) flag.pop_back();  // the end of a line of drawing
    const bool is_flag = flag.size() > 2 && std::islower(static_cast<unsigned char>(flag[2])) != 0;
    if (begins && is_flag && !is_of_script(text.substr(0, at))) found.push_back(std::move(flag));
    at = std::max(at, end - 2);
  }
  return found;
}

const std::set<std::string>& flags_of(const std::string& command) {
  static const std::map<std::string, std::set<std::string>> kFlags = all_flags();
  return kFlags.at(command);
}

std::string unknown_flag(const std::string& text, const std::string& command, const std::string& question) {
  for (const std::string& flag : flags_in(text)) {
    if (flags_of(command).count(flag) + flags_of("estimate").count(flag) > 0) continue;
    if (question.find(flag) != std::string::npos) continue;
    const auto all = commands();
    const bool is_of_named = std::any_of(all.begin(), all.end(), [&](const Command& other) {
      return text.find(std::string("gpuplan ") + other.name) != std::string::npos &&
             flags_of(other.name).count(flag) > 0;
    });
    if (!is_of_named) return flag;
  }
  return "";
}

}  // namespace gpuplan::test
