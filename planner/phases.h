// A training step as a list of phases over resident models (docs/phases.md). The pass with gradients is the job itself;
// passes without gradients (a reference, a teacher, the policy on other rows) are jobs of their own, under the same
// strategy, on the same program builder. Memory replay reads each and takes the most; time adds them up. Supervised
// fine-tuning is the list of one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/job.h"
#include "planner/memory.h"
#include "planner/phase_figures.h"
#include "planner/step_inputs.h"
#include "planner/step_time.h"

namespace gpuplan {

/// A pass without gradients.
struct SidePhase {
  std::string name;  // "log-probs of the reference"
  Job job;
  std::int64_t times = 1;     // per micro-batch
  bool in_graph{};            // it runs while what the pass with gradients saved is alive
  bool has_own_weights{};     // its model stays beside the one that is trained; false: it is that one
  bool is_before_training{};  // once over the data, before the first step
  bool trains{};              // with gradients: once per step, as often as the policy
  bool is_old{};              // log-probs of the policy that generated
  std::int64_t at_once = 0;   // sequences that it holds at one time, where they are not those of a micro-batch
};

/// The phases of a job beside its pass with gradients, in order; none of supervised fine-tuning.
std::vector<SidePhase> side_phases(const Job& job);

/// replay_all() of the job's program, with the models of its other phases beside it; where one of them holds more, its
/// moment is the peak. Any kind of GPU has the same.
std::vector<Peak> replay_passes(const Job& job, const StepProgram& program);

/// Adds what an engine that generates holds beside them, a share of the card that there is.
void add_engine(std::span<Peak> peaks, const Job& job);

/// Both of them.
std::vector<Peak> replay_phases(const Job& job, const StepProgram& program);

/// Every phase of a job whose method is not the usual one, that with gradients first, which takes `train`. `peaks` are
/// those of replay_phases().
std::vector<PhaseFigures> phase_figures(const Job& job, std::span<const Peak> peaks, const StepTime& train,
                                        const StepColumns& columns);

/// Time of the phases beside the pass with gradients, which takes `train`, per step, of rows of their mean length;
/// nothing is built where there are none.
StepTime side_time(const Job& job, const StepColumns& columns, Seconds train);

/// Time of the phases that run once over the data before the first step; 0: none does.
Seconds time_before_training(const Job& job, const StepColumns& columns);

/// The parts of a peak that a phase beside the pass with gradients sets: what waits for it, and what it holds itself.
DetailedPeak detailed_phases(const Job& job, const StepProgram& program, std::size_t rank_class, const Peak& peak);

}  // namespace gpuplan
