// What a command is, the table of all of them, and the help that CLI11's flags give. A command is one file and one row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "report/text/screen.h"

namespace CLI {
class App;
}

namespace gpuplan {

/// Says whether a flag is declared where no argument names it: whether a command has it is asked before the arguments
/// are read.
enum class Declared : std::uint8_t { IfNamed, Always };

struct Command {
  const char* name;
  const char* summary;
  const char* usage;                                            // after "gpuplan name"
  const char* example;                                          // lines for the help
  const char* first_flags = "";                                 // that -h lists, with spaces between
  void (*setup)(CLI::App& app) = nullptr;                       // declares the flags
  int (*run)(const CLI::App& app, Console& console) = nullptr;  // returns the exit code: 0, or 1 when the answer is no
  bool has_tables = false;                                      // --format gives them alone
  bool takes_program = false;    // what stands behind "--" is not looked at: a program and its arguments
  bool lists_all_flags = false;  // its answer names the flags of every command
};

/// Those that need a machine, `run`, `calibrate` and `serve`, as the program has them: execute/commands.cpp in the
/// whole one; cli/planning/commands.cpp in the one that a first question builds, in which they have no flags.
std::span<const Command> machine_commands();

/// All, in the order of the help: those that only compute, and machine_commands() among them.
std::span<const Command> commands();

bool needs_machine(const Command& command);

/// Runs a command that the program starts itself with: its exit code. Empty for what people type.
std::optional<int> serve_own_process(const std::vector<std::string>& arguments, Console& console);

extern const Command kPlan, kEstimate, kFix, kDiagnose, kDoctor, kExport, kSimulate, kProfiles, kValidate, kTopology,
    kModels, kGpus, kMachines, kCompletion;
/// Names and help of these commands; execute/ has their flags and their work.
extern const Command kRun, kCalibrate, kServe;

/// The whole help of the program or of one command.
std::string help_text(const CLI::App& app, const Screen& screen);
/// At most 20 lines of it: what it is for, the flags that people use first, where the rest is.
std::string short_help_text(const CLI::App& app, const Screen& screen);

}  // namespace gpuplan
