// gpuplan completion: prints a script for a shell.
#include "cli/completion.h"

#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cluster/gpu_names.h"
#include "cluster/profile/profile_store.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/optimizers.h"

namespace gpuplan {
namespace {

using Names = std::vector<std::string>;

Names model_names() {
  Names names;
  for (const CatalogueEntry& entry : list_catalogue())
    if (entry.is_modelled) names.push_back(entry.name);
  return names;
}

Names gpu_names() {
  Names names;
  for (const GpuNames& gpu : list_gpu_names()) names.push_back(gpu.id);
  return names;
}

Names machine_names() {
  Names names;
  for (const auto& file : std::filesystem::directory_iterator(data_dir() / "clusters"))
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Names optimizer_names() {
  Names names;
  for (const OptimizerSpec& row : optimizers()) names.emplace_back(row.name);
  return names;
}

Names framework_names() {
  Names names;
  for (const FrameworkConvention& row : list_frameworks()) names.push_back(row.name);
  return names;
}

Names profile_names() {
  Names names;
  for (const StoredProfile& stored : stored_profiles())
    if (stored.profile) names.push_back(stored.profile->id);
  for (const Profile& shipped : shipped_profiles()) names.push_back(shipped.id);
  return names;
}

/// What stands behind a word of the help.
struct Placeholder {
  std::string_view word;
  Names (*names)();
  bool takes_file;
};
constexpr std::array kPlaceholders{Placeholder{"MODEL", model_names, true},
                                   Placeholder{"GPUS", gpu_names, false},
                                   Placeholder{"GPU", gpu_names, false},
                                   Placeholder{"CLUSTER", machine_names, true},
                                   Placeholder{"OPTIMIZER", optimizer_names, false},
                                   Placeholder{"FRAMEWORK", framework_names, false},
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

struct Shell {
  std::string_view name;
  std::string (*write)(const std::vector<CompletedCommand>&);
};
constexpr std::array kShells{Shell{"bash", bash_completion}, Shell{"zsh", zsh_completion},
                             Shell{"fish", fish_completion}};

void setup(CLI::App& app) {
  app.add_option("shell")->type_name("bash|zsh|fish")->description("which shell the script is for")->group("Options");
}

int run(const CLI::App& app, Console& console) {
  const auto name = given(app, "shell");
  if (!name) throw InputError("", "no shell is named", "bash, zsh or fish, as in: gpuplan completion bash");
  for (const Shell& shell : kShells)
    if (shell.name == *name) {
      console.out << shell.write(completed_commands(*app.get_parent()));
      return 0;
    }
  throw InputError("", fmt::format("unknown shell '{}'", *name),
                   did_you_mean(*name, {"bash", "zsh", "fish"}, "known: bash, zsh, fish"));
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
                          .summary = "print a completion script for a shell",
                          .usage = "bash|zsh|fish",
                          .example =
                              "source <(gpuplan completion bash)\n"
                              "gpuplan completion zsh > ~/.zfunc/_gpuplan\n"
                              "gpuplan completion fish > ~/.config/fish/completions/gpuplan.fish",
                          .setup = setup,
                          .run = run};

}  // namespace gpuplan
