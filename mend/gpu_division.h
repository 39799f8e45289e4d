// The GPUs of a plan as a trainer's own keys divide them: those that train, those of an engine with its own, and models
// that share the GPUs of those that train. What is written is checked as the trainer checks it.
#pragma once

#include <string>
#include <vector>

#include "mend/fix.h"

namespace gpuplan {

/// A division in the files' own keys, or why they have none for these GPUs.
struct GpuDivision {
  std::vector<WantedFact> facts;  // empty: the files say it already, or nothing of it
  std::string why_not;            // empty: they can say it
};

/// Gives what the files would have to say so that they start on the GPUs of the question.
GpuDivision gpu_division(const ReadFiles& given);

/// Says what is otherwise where files that were read divide their GPUs otherwise than `wanted`; empty: they agree.
std::string other_division(const EstimateRequest& wanted, const ConfigReading& read);

}  // namespace gpuplan
