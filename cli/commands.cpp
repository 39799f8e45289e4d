#include "cli/commands.h"

#include <array>
#include <ostream>

namespace gpuplan {

std::span<const Command> commands() {
  static const std::array kCommands{kEstimate, kSimulate, kRun,    kCalibrate, kProfiles,
                                    kValidate, kTopology, kModels, kGpus,      kCompletion};
  return kCommands;
}

}  // namespace gpuplan
