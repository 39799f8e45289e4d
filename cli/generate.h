// gpuplan estimate --generate: what an engine holds and how fast it answers, by itself.
#pragma once

#include <cstdint>

#include "cli/plan_question.h"
#include "report/generation_answer.h"

namespace gpuplan {

/// Requires: the question has a model and a machine. `of_files`: answers that a trainer's files generate at once; 0:
/// none say it. Throws InputError for what makes no sense.
GenerationAnswer answer_generation(const CLI::App& app, const EstimateRequest& request, std::int64_t of_files = 0);

}  // namespace gpuplan
