// The table of commands. A command is one file and one row here.
#pragma once

#include <span>

#include "cli/command.h"

namespace gpuplan {

/// In the order of the help. A command that does not exist yet has no row.
std::span<const Command> commands();

extern const Command kEstimate, kSimulate, kRun, kCalibrate, kProfiles, kValidate, kTopology, kModels, kGpus,
    kCompletion;

}  // namespace gpuplan
