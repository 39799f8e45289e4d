// Answers that end where the longest sequence of an engine does.
#pragma once

#include <cstdint>

namespace gpuplan {

/// Cuts lengths of answers behind a prompt at `context` tokens together; 0: there is no such end. `mean` 0: all are as
/// long as the longest. Throws InputError where no answer is left.
void cut_answers(std::int64_t context, std::int64_t prompt, std::int64_t& mean, std::int64_t& longest);

}  // namespace gpuplan
