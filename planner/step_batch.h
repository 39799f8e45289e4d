// The batch of all ranks of a training on answers: it is generated at once, so that it is the job's, and not that of a
// strategy.
#pragma once

#include <cstdint>
#include <string>

#include "planner/job.h"

namespace gpuplan {

/// Passes of an optimizer step under `strategy` that make the batch that the request has under its own. Of a training
/// on rows of the data the passes are the request's.
std::int64_t passes_under(const EstimateRequest& request, const Strategy& strategy);

/// Gives the request another strategy, or auto, and the passes that make its batch there.
void set_strategy_of_batch(EstimateRequest& request, const std::string& strategy);

/// Optimizer steps of so many sequences on a generation, one at least.
std::int64_t steps_of_generation(std::int64_t answers, std::int64_t of_step);

}  // namespace gpuplan
