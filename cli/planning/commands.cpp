// The commands of gpuplan_planning, which a first question builds: everything but what uses this machine's devices.
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"

namespace gpuplan {

std::span<const Command> machine_commands() {
  static const std::array kCommands{kRun, kCalibrate, kServe};
  return kCommands;
}

std::optional<int> serve_own_process(const std::vector<std::string>& arguments, Console&) {
  const bool asks_help = arguments.front() == "help" && arguments.size() > 1;
  for (const Command& command : machine_commands())
    if (arguments[asks_help ? 1 : 0] == command.name)
      throw EnvError(fmt::format(
          "this program plans only; ./gpuplan {} builds the one that also trains, measures and serves", command.name));
  return {};
}

}  // namespace gpuplan
