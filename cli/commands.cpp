#include "cli/commands.h"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/names.h"
#include "report/text/text.h"

namespace gpuplan {
const Command kRun{
    .name = "run",
    .summary = "execute the plan, report predicted against measured",
    .usage =
        "[PLAN.json] --model DIR [--full | --lora | --qlora] --gpus GPUS --data FILE [OPTION]... [-- SCRIPT ARG...]",
    .example =
        "gpuplan run --demo\n"
        "gpuplan run --model ./tinyllama --lora r=8 --gpus 2xcpu --data train.jsonl --output out\n"
        "gpuplan run plan.json --init random --max-steps 5\n"
        "gpuplan run plan.json --engine accelerate --dry-run -- train.py --lr 2e-4",
    .first_flags = "--demo --model --lora --gpus --data --output --max-steps --resume --engine --dry-run --json",
    .takes_program = true};

const Command kCalibrate{.name = "calibrate",
                         .summary = "measure this machine and fit the cost model to it",
                         .usage = "[--device auto|cuda|cpu] [--quick] [OPTION]...",
                         .example =
                             "gpuplan calibrate\n"
                             "gpuplan calibrate --quick --device cpu\n"
                             "gpuplan calibrate --only gemm,nccl --output fast.yaml",
                         .first_flags = "--device --quick --only --ranks --output --fresh --json"};

const Command kServe{.name = "serve",
                     .summary = "a page in the browser, with this program behind it",
                     .usage = "[--port PORT] [--open] [OPTION]...",
                     .example =
                         "gpuplan serve --open\n"
                         "gpuplan serve --port 8000",
                     .first_flags = "--port --open --host --timeout"};

std::span<const Command> commands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> rows{kPlan, kEstimate, kFix, kDiagnose, kExport, kSimulate};
    std::ranges::copy(machine_commands(), std::back_inserter(rows));
    rows.insert(rows.end(), {kDoctor, kProfiles, kValidate, kTopology, kModels, kGpus, kMachines, kCompletion});
    return rows;
  }();
  return all;
}

bool needs_machine(const Command& command) {
  return std::ranges::any_of(machine_commands(),
                             [&](const Command& row) { return std::string_view(row.name) == command.name; });
}

namespace {

constexpr int kNameWidth = 26;

/// "--gpus LIST" and what it means, the meaning in a column of its own.
std::string entry(const std::string& name, const std::string& meaning, int width) {
  const std::string indent(kNameWidth, ' ');
  std::string first = "  " + name;
  if (width_of(first) + 2 <= kNameWidth) return wrap(meaning, width, pad_right(first, kNameWidth), indent);
  return first + "\n" + wrap(meaning, width, indent, indent);
}

std::string name_of(const CLI::Option& option) {
  if (option.get_positional()) return option.get_type_name();
  const std::string short_name = option.get_snames().empty() ? "" : fmt::format("-{}, ", option.get_snames().front());
  const std::string value = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  const char* separator = value.empty() ? "" : value.starts_with('[') ? "" : " ";
  const std::string optional = value.starts_with('[') ? fmt::format("[={}", value.substr(1)) : value;
  return fmt::format("{}--{}{}{}", short_name, option.get_lnames().front(), separator, optional);
}

std::string flags_text(const CLI::App& app, const Screen& screen) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : app.get_options())
    if (std::find(groups.begin(), groups.end(), option->get_group()) == groups.end())
      groups.push_back(option->get_group());
  std::rotate(groups.begin(), std::find(groups.begin(), groups.end(), "Options") + (groups.empty() ? 0 : 1),
              groups.end());  // the general ones last
  std::string out;
  for (const std::string& group : groups) {
    out += "\n" + paint(group, Ink::Strong, screen) + "\n";
    for (const CLI::Option* option : app.get_options())
      if (option->get_group() == group) out += entry(name_of(*option), option->get_description(), prose_width(screen));
  }
  return out;
}

const char* usage_of(const CLI::App& app) {
  for (const Command& command : commands())
    if (command.name == app.get_name()) return command.usage;
  return "COMMAND [OPTION]...";
}

std::string examples_text(const std::string& examples, const Screen& screen) {
  std::string out = "\n" + paint("Examples", Ink::Strong, screen) + "\n";
  for (const std::string& line : split(examples, '\n')) out += "  " + line + "\n";
  return out;
}

/// The first `most` characters of a text, at the end of a word.
std::string cut(std::string text, int most) {
  if (width_of(text) <= most) return text;
  std::size_t end = text.rfind(' ', std::size_t(most - 2));
  if (end == std::string::npos) end = std::size_t(most - 2);
  text.resize(end);
  while (!text.empty() && std::string_view(",.;: ").find(text.back()) != std::string_view::npos) text.pop_back();
  return text + " …";
}

/// A name and what it means, on one line of 80 columns.
std::string short_entry(const std::string& name, const std::string& meaning, int name_width) {
  constexpr int kWidth = 80;
  return pad_right("  " + name, name_width) + cut(meaning, kWidth - name_width) + "\n";
}

std::string short_flags_text(const CLI::App& app, const std::string& names) {
  std::string out;
  for (const std::string& name : split(names, ' '))
    if (const CLI::Option* option = app.get_option_no_throw(name)) {
      const std::string description = option->get_description();
      out += short_entry(cut(name_of(*option), 24), description.substr(0, description.find(". Default")), kNameWidth);
    }
  return out;
}

}  // namespace

std::string short_help_text(const CLI::App& app, const Screen& screen) {
  constexpr int kWidth = 80, kCommandWidth = 13;
  const std::string name = app.get_parent() ? "gpuplan " + app.get_name() : "gpuplan";
  std::string out = cut(fmt::format("{}: {}", name, app.get_description()), kWidth) + "\n";
  if (!app.get_parent()) {
    for (const Command& command : commands()) out += short_entry(command.name, command.summary, kCommandWidth);
    return out + "gpuplan COMMAND -h shows its first flags, --help all of them\n";
  }
  const auto command = std::ranges::find_if(commands(), [&](const Command& c) { return c.name == app.get_name(); });
  out += "Usage: " + cut(fmt::format("{} {}", name, command->usage), kWidth - 7) + "\n" +
         short_flags_text(app, command->first_flags);
  const std::string example(split(command->example, '\n').front());
  if (!example.empty()) out += paint("Example: ", Ink::Strong, screen) + cut(example, kWidth - 9) + "\n";
  return out + fmt::format("{} --help shows everything\n", name);
}

std::string help_text(const CLI::App& app, const Screen& screen) {
  const std::string name = app.get_parent() ? "gpuplan " + app.get_name() : "gpuplan";
  std::string out = wrap(fmt::format("{}: {}", name, app.get_description()), prose_width(screen), "", "  ");
  out += wrap(fmt::format("Usage: {} {}", name, usage_of(app)), prose_width(screen), "\n", "       ");
  if (!app.get_parent()) {
    out += "\n" + paint("Commands", Ink::Strong, screen) + "\n";
    for (const Command& command : commands()) out += entry(command.name, command.summary, prose_width(screen));
  }
  out += flags_text(app, screen);
  if (!app.get_footer().empty()) out += examples_text(app.get_footer(), screen);
  if (!app.get_parent())
    out += wrap(
        "'gpuplan COMMAND --help' explains a command. Exit codes: 0 yes, 1 the answer is no, 2 wrong input, "
        "3 environment error (files, devices, drivers), 4 internal error.",
        prose_width(screen), "\n", "");
  return out;
}

}  // namespace gpuplan
