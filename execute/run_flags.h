// The flags of `gpuplan run` beside those of a plan.
#pragma once

#include "planner/estimate.h"
#include "run/training.h"

namespace CLI {
class App;
}

namespace gpuplan {

void add_run_flags(CLI::App& app);

/// Throws InputError naming the flag.
TrainingOptions read_training_options(const CLI::App& app, const EstimateRequest& request);

}  // namespace gpuplan
