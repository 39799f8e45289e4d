#include "cli/completion.h"

#include <array>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/plan_flags.h"
#include "cluster/cluster_file.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/profile/profile_store.h"
#include "ecosystem/export.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/optimizers.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

using Names = std::vector<std::string>;

Names model_names() {
  Names names;
  for (const CatalogueEntry& entry : list_catalogue())
    if (entry.is_modelled) names.push_back(entry.name);
  return names;
}

/// The names of a table's rows.
template <auto rows, auto name = &std::remove_cvref_t<decltype(*rows().begin())>::name>
Names names_of_rows() {
  Names names;
  for (const auto& row : rows()) names.emplace_back(row.*name);
  return names;
}

Names framework_names() {
  Names names = names_of_rows<list_frameworks>();
  names.emplace_back(kPlainFramework);
  return names;
}

Names profile_names() {
  Names names;
  for (const StoredProfile& stored : stored_profiles())
    if (stored.profile) names.push_back(stored.profile->id);
  for (const Profile& shipped : shipped_profiles()) names.push_back(shipped.id);
  return names;
}

/// Meaning of a word that stands for a value in the help.
struct Placeholder {
  std::string_view word;
  Names (*names)();
  bool takes_file;
};
constexpr std::array kPlaceholders{Placeholder{"MODEL", model_names, true},
                                   Placeholder{"GPUS", names_of_rows<list_gpu_names, &GpuNames::id>, false},
                                   Placeholder{"GPU", names_of_rows<list_gpu_names, &GpuNames::id>, false},
                                   Placeholder{"CLUSTER", list_clusters, true},
                                   Placeholder{"OPTIMIZER", names_of_rows<optimizers>, false},
                                   Placeholder{"FRAMEWORK", framework_names, false},
                                   Placeholder{"METHOD", names_of_rows<training_methods>, false},
                                   Placeholder{"TARGET", export_targets, false},
                                   Placeholder{"PROFILE", profile_names, true},
                                   Placeholder{"FILE", nullptr, true},
                                   Placeholder{"PLAN.json", nullptr, true},
                                   Placeholder{"POINTS.jsonl", nullptr, true}};

/// "none|full|every=K" stands for itself: what has no variable part may be completed.
void add_values(CompletedFlag& flag, const std::string& type) {
  for (const Placeholder& row : kPlaceholders) {
    if (row.word != type) continue;
    if (row.names) flag.values = row.names();
    flag.takes_file = row.takes_file;
  }
  if (type.find('|') == std::string::npos) return;
  for (const std::string& word : split(type, '|')) {
    const std::string fixed = word.substr(0, word.find_first_of("[ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
    if (!fixed.empty()) flag.values.push_back(fixed);
  }
}

CompletedFlag completed_flag(const CLI::Option& option) {
  CompletedFlag flag{.help = option.get_description()};
  if (!option.get_positional()) flag.name = "--" + option.get_lnames().front();
  flag.takes_value = option.get_positional() || option.get_items_expected_max() > 0;
  flag.needs_value = flag.takes_value && !option.get_type_name().starts_with('[');
  if (flag.takes_value) add_values(flag, option.get_type_name());
  return flag;
}

struct Output {
  std::string_view name;
  std::string (*write)(const CLI::App& program);
};
template <std::string (*Write)(const std::vector<CompletedCommand>&)>
std::string script(const CLI::App& program) {
  return Write(completed_commands(program));
}
constexpr std::array kOutputs{Output{"bash", script<bash_completion>}, Output{"zsh", script<zsh_completion>},
                              Output{"fish", script<fish_completion>}, Output{"json", script<json_listing>},
                              Output{"openapi", script<open_api>},     Output{"man", manual_page}};

void setup_completion(CLI::App& app) {
  app.add_option("shell")
      ->type_name("bash|zsh|fish|json|openapi|man")
      ->description(
          "the shell of the script, the commands and flags as JSON, the requests of serve as OpenAPI, or the manual "
          "page")
      ->group("Options");
}

int run_completion(const CLI::App& app, Console& console) {
  const auto name = given(app, "shell");
  if (!name) throw InputError("", "no shell is named", "bash, zsh or fish, as in: gpuplan completion bash");
  for (const Output& output : kOutputs)
    if (output.name == *name) {
      console.out << output.write(*app.get_parent());
      return 0;
    }
  Names known;
  for (const Output& output : kOutputs) known.emplace_back(output.name);
  throw InputError("", fmt::format("unknown shell '{}'", *name),
                   did_you_mean(*name, known, fmt::format("known: {}", fmt::join(known, ", "))));
}

}  // namespace

std::vector<CompletedCommand> completed_commands(const CLI::App& program) {
  std::vector<CompletedCommand> out;
  for (const CLI::App* app : program.get_subcommands([](const CLI::App*) { return true; })) {
    CompletedCommand command{app->get_name(), app->get_description(), {}};
    for (const CLI::Option* option : app->get_options()) command.flags.push_back(completed_flag(*option));
    out.push_back(std::move(command));
  }
  return out;
}

const Command kCompletion{.name = "completion",
                          .summary = "print a completion script for a shell, or the manual page",
                          .usage = "bash|zsh|fish|json|openapi|man",
                          .example =
                              "source <(gpuplan completion bash)\n"
                              "gpuplan completion zsh > ~/.zfunc/_gpuplan\n"
                              "gpuplan completion fish > ~/.config/fish/completions/gpuplan.fish\n"
                              "gpuplan completion man > gpuplan.1",
                          .setup = setup_completion,
                          .run = run_completion,
                          .lists_all_flags = true};

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

/// Branches of bash's case for words that may follow a flag, or stand alone.
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
         fmt::format("    COMPREPLY=($(compgen -W '{} help --help --version --licences' -- \"$current\"))\n",
                     command_names(commands)) +
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
