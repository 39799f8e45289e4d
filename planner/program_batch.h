// A step program for other batches than it was built for: a micro batch scales what it says of activations, a number of
// micro-batches the turns of its repeat. All else stays.
#pragma once

#include <cstdint>

#include "planner/job.h"
#include "planner/step_program.h"

namespace gpuplan {

/// Holds what the instructions of a program depend on, beside what its blocks do (planner/block_cache.h).
struct BuiltAs {
  std::int64_t micro_batch{}, grad_accum{};
  Strategy strategy;
  EngineConvention engine;
  std::int64_t ddp_bucket_bytes{};
  RowOf<OptimizerSpec> optimizer;
  Offload offload;
  Layers layers{};

  /// The program that is there is that of `job`, but for its batch.
  bool serves(const Job& job, Layers as) const;
  void set(const Job& job, Layers as);
};

/// Makes the program that of the job's batch. Requires: built_as->serves(job), and its blocks are the job's.
void set_batch(StepProgram& program, const Job& job);

/// It moves activations: its bytes are proportional to the micro batch.
bool moves_activations(const RankProgram& program, const Instruction& instruction);

}  // namespace gpuplan
