// gpuplan estimate --generate: what an engine holds and how fast it answers, by itself.
#pragma once

#include "cli/plan_question.h"
#include "report/generation_answer.h"

namespace gpuplan {

/// Requires: the question has a model and a machine. Throws InputError for what makes no sense.
GenerationAnswer answer_generation(const CLI::App& app, const EstimateRequest& request);

}  // namespace gpuplan
