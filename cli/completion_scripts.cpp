// The scripts themselves. Words that are completed hold letters, digits and - _ . = : only, so they need no quoting.
#include <string_view>

#include <fmt/format.h>

#include "cli/completion.h"

namespace gpuplan {
namespace {

using Commands = std::vector<CompletedCommand>;

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

std::string single_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string command_names(const Commands& commands) {
  std::string out;
  for (const CompletedCommand& command : commands) out += (out.empty() ? "" : " ") + command.name;
  return out;
}

std::string flag_names(const CompletedCommand& command) {
  std::string out;
  for (const CompletedFlag& flag : command.flags)
    if (!flag.name.empty()) out += (out.empty() ? "" : " ") + flag.name;
  return out;
}

/// What may follow a flag, or stand alone, as the branches of bash's case.
std::string bash_branch(const std::string& pattern, const CompletedFlag& flag) {
  std::string out = fmt::format("    {}) words='{}'", pattern, fmt::join(flag.values, " "));
  return out + (flag.takes_file ? " files=yes ;;\n" : " ;;\n");
}

/// The description of a flag inside zsh's brackets.
std::string zsh_help(const std::string& help) {
  std::string out = help;
  for (const char* special : {"\\", "[", "]", ":"}) out = replaced(out, special, std::string("\\") + special);
  return out;
}

std::string zsh_values(const CompletedFlag& flag) {
  const std::string words = flag.values.empty() ? "" : fmt::format("compadd -- {}; ", fmt::join(flag.values, " "));
  return words.empty() && !flag.takes_file ? " " : fmt::format("{{{}{}}}", words, flag.takes_file ? "_files" : "");
}

std::string zsh_flag(const CompletedFlag& flag) {
  if (flag.name.empty()) return single_quoted(fmt::format("::{}:{}", "argument", zsh_values(flag)));
  const std::string described = fmt::format("[{}]", zsh_help(flag.help));
  if (!flag.takes_value) return single_quoted(flag.name + described);
  if (!flag.needs_value) return single_quoted(fmt::format("{}=-{}::value:{}", flag.name, described, zsh_values(flag)));
  return single_quoted(fmt::format("{}={}:value:{}", flag.name, described, zsh_values(flag)));
}

std::string fish_flag(const CompletedCommand& command, const CompletedFlag& flag) {
  std::string out = fmt::format("complete -c gpuplan -n '__fish_seen_subcommand_from {}'", command.name);
  if (!flag.name.empty()) out += fmt::format(" -l {}", flag.name.substr(2));
  if (flag.needs_value && !flag.name.empty()) out += " -r";
  if (flag.takes_value) out += flag.takes_file ? " -F" : " -f";
  if (!flag.values.empty()) out += fmt::format(" -a '{}'", fmt::join(flag.values, " "));
  return out + (flag.name.empty() ? "\n" : " -d " + single_quoted(flag.help) + "\n");
}

}  // namespace

std::string bash_completion(const Commands& commands) {
  std::string flags, values, alone;
  std::string free_text;  // flags whose values nobody can guess
  for (const CompletedCommand& command : commands) {
    flags += fmt::format("    {}) flags='{}' ;;\n", command.name, flag_names(command));
    for (const CompletedFlag& flag : command.flags) {
      const std::string pattern = command.name + ":" + (flag.name.empty() ? "*" : flag.name);
      if (flag.name.empty())
        alone += bash_branch(pattern, flag);
      else if (flag.needs_value && flag.values.empty() && !flag.takes_file)
        free_text += (free_text.empty() ? "" : "|") + pattern;
      else if (flag.needs_value)
        values += bash_branch(pattern, flag);
    }
  }
  return "# bash completion for gpuplan, written by 'gpuplan completion bash'\n"
         "_gpuplan() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
         "  local flags='' words='' files=no\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD == 1)); then\n" +
         fmt::format("    COMPREPLY=($(compgen -W '{} --help --version' -- \"$current\"))\n", command_names(commands)) +
         "    return\n"
         "  fi\n"
         "  if [[ $current == = ]]; then current=''; elif [[ $previous == = ]]; then "
         "previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  case $command in\n" +
         flags +
         "  esac\n"
         "  case $command:$previous in\n" +
         values + "    " + free_text + ") ;;\n" + alone +
         "  esac\n"
         "  if [[ $current == -* ]]; then words=$flags files=no; fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  if [[ $files == yes ]]; then COMPREPLY+=($(compgen -f -- \"$current\")); fi\n"
         "}\n"
         "complete -o filenames -F _gpuplan gpuplan ./gpuplan\n";
}

std::string zsh_completion(const Commands& commands) {
  std::string list, branches;
  for (const CompletedCommand& command : commands) {
    list += fmt::format("    {}\n", single_quoted(command.name + ":" + replaced(command.help, ":", "\\:")));
    branches += fmt::format("    {})\n      _arguments", command.name);
    for (const CompletedFlag& flag : command.flags) branches += " \\\n        " + zsh_flag(flag);
    branches += "\n      ;;\n";
  }
  return "#compdef gpuplan\n"
         "# zsh completion for gpuplan, written by 'gpuplan completion zsh'\n"
         "_gpuplan() {\n"
         "  local -a commands\n"
         "  commands=(\n" +
         list +
         "  )\n"
         "  if ((CURRENT == 2)); then _describe command commands; return; fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  ((CURRENT--))\n"
         "  case $command in\n" +
         branches +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _gpuplan ]]; then _gpuplan \"$@\"; else compdef _gpuplan gpuplan; fi\n";
}

std::string fish_completion(const Commands& commands) {
  std::string out = "# fish completion for gpuplan, written by 'gpuplan completion fish'\ncomplete -c gpuplan -f\n";
  for (const CompletedCommand& command : commands)
    out += fmt::format("complete -c gpuplan -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       single_quoted(command.help));
  for (const CompletedCommand& command : commands)
    for (const CompletedFlag& flag : command.flags) out += fish_flag(command, flag);
  return out;
}

}  // namespace gpuplan
