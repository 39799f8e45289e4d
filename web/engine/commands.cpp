// The commands of the module: those that need a machine have names and help, and are refused (cli/program.cpp).
#include <array>

#include "cli/commands.h"

namespace gpuplan {

std::span<const Command> machine_commands() {
  static const std::array kCommands{kRun, kCalibrate, kServe};
  return kCommands;
}

std::optional<int> serve_own_process(const std::vector<std::string>&, Console&) { return {}; }

}  // namespace gpuplan
