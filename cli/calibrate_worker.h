// The process that `gpuplan calibrate` starts for every group of ranks: it alone opens device libraries, so that a
// crash or a lost device costs one probe. Not a command for people.
#pragma once

#include <string>
#include <vector>

#include "calibrate/worker_command.h"
#include "cli/commands.h"

namespace gpuplan {

/// `calibrate-worker cpu|cuda facts` prints one line of JSON; `calibrate-worker cpu|cuda RANKS [quick]` serves probes.
int run_worker(const std::vector<std::string>& arguments, Console& console);

}  // namespace gpuplan
