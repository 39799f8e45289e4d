// The phases that reinforcement learning adds to a step: an engine writes answers, something judges them, new weights
// go to the engine, and both sides give each other room. Derivations: docs/rl.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/engine_gpus.h"
#include "planner/generation.h"
#include "planner/job.h"
#include "planner/memory.h"
#include "planner/phases.h"

namespace gpuplan {

/// Holds what an engine of a job has, and what is generated at once.
struct JobRollout {
  const RolloutConvention* convention = nullptr;
  EngineSetup setup;
  GenerationBatch batch;
  TrainerOffload offloads{};       // what trains, while it generates
  double steps = 1;                // optimizer steps on what is generated at once
  bool gathers_per_token = false;  // each token gathers the weights again
};
/// Says whether a rank holds only a part of a replica: of its layers, its stages or its experts.
bool holds_part(const Mesh& mesh);

/// Requires: generates(job.recipe()).
JobRollout job_rollout(const Job& job);

/// Says which facts of the rows were stated, and stay.
struct StatedRows {
  bool seq_len = false, packing = false, loss = false;
};
/// Gives a method that generates the lengths that nobody stated, rows as long as prompt and answer, and what its
/// trainer makes of them. Requires: the trainer has a convention.
void settle_rows(EstimateRequest& request, StatedRows stated);

/// Answers to a prompt, which is a row of the data; 1 where nothing is generated.
std::int64_t answers_of_row(const EstimateRequest& request);

/// "64 answers at once, 8 to a prompt, by vLLM on the GPUs that train, with 30 % of each": what was assumed of
/// generation.
std::string rollout_assumption(const Job& job);

/// Says whether the answers that all GPUs generate at once are whole prompts; others have none.
bool has_whole_prompts(const EstimateRequest& request);

/// Throws InputError where the answers that all GPUs generate at once are no whole number of prompts.
void check_answers(const EstimateRequest& request);

/// Says why the trainer would refuse the batch, or the engine would not start; empty: neither does.
std::string rollout_refusal(const Job& job);

/// Adds what the engine holds through training, and its own moments, to the peak of a class of ranks.
void add_rollout(Peak& peak, const Job& job);

/// Generation, rewards, weight sync, switches and the rest, per optimizer step. `train` is what the pass with gradients
/// takes, `passes` what the passes without do. `peak`: with add_rollout(); none where only seconds are asked for.
std::vector<PhaseFigures> rollout_figures(const Job& job, const Peak& peak, Seconds train, Seconds passes);

}  // namespace gpuplan
