// Why no strategy is possible with the flags of a question, whatever memory the GPUs have, and the least change of
// those flags that makes one possible. What does not fit is an answer; what is refused here is wrong input.
#pragma once

#include <optional>

#include "base/error.h"
#include "planner/job.h"

namespace gpuplan {

/// Names the flag that is in the way and what to give instead; nothing where a strategy is possible, or where no change
/// of one or two flags makes one possible. `request`: settled, as estimate() answers it.
std::optional<InputError> refusal_of(const EstimateRequest& request);

}  // namespace gpuplan
