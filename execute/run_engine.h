// `gpuplan run --engine`: a plan trained by accelerate, torchrun, DeepSpeed or Slurm, and compared with its prediction.
#pragma once

#include "cli/commands.h"

namespace gpuplan {

void add_engine_flags(CLI::App& app);

/// Whether another engine than gpuplan's own is asked for. Throws InputError for an unknown one, and for flags that
/// need one.
bool wants_other_engine(const CLI::App& app, const Console& console);

int run_with_engine(const CLI::App& app, Console& console);

}  // namespace gpuplan
