// The commands that use this machine's devices.
#pragma once

#include "cli/commands.h"

namespace gpuplan {

void setup_run(CLI::App& app);
int run_run(const CLI::App& app, Console& console);

void setup_calibrate(CLI::App& app);
int run_calibrate(const CLI::App& app, Console& console);

}  // namespace gpuplan
