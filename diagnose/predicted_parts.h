// The parts of a step as the cost model and the simulator predict them.
#pragma once

#include "diagnose/step_parts.h"
#include "planner/job.h"

namespace gpuplan {

/// Work by class and phase at full speed, and what the simulated first rank waits for. Copies that nothing hides count
/// as exposed.
StepParts predicted_parts(const Job& job);

}  // namespace gpuplan
