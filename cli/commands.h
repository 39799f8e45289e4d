// What a command is, the table of all of them, and the help that CLI11's flags give. A command is one file and one row.
#pragma once

#include <span>
#include <string>

#include "report/text/screen.h"

namespace CLI {
class App;
}

namespace gpuplan {

struct Command {
  const char* name;
  const char* summary;
  const char* usage;                                  // after "gpuplan name"
  const char* example;                                // lines for the help
  void (*setup)(CLI::App& app);                       // declares the flags
  int (*run)(const CLI::App& app, Console& console);  // returns the exit code: 0, or 1 when the answer is no
  bool takes_program = false;  // what stands behind "--" is not looked at: a program and its arguments
};

/// In the order of the help. A command that does not exist yet has no row.
std::span<const Command> commands();

extern const Command kPlan, kEstimate, kExport, kSimulate, kRun, kCalibrate, kProfiles, kValidate, kTopology, kModels,
    kGpus, kCompletion;

/// The help of the program or of one command.
std::string help_text(const CLI::App& app, const Screen& screen);

}  // namespace gpuplan
