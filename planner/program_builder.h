// Builds the step program of a strategy: a schedule lists visits to units, the state layout turns visits into gathers,
// calls, reduces and steps. One builder for every row of the strategy table; nothing here asks for a strategy's name.
#pragma once

#include <vector>

#include "models/framework.h"
#include "models/ledger.h"
#include "models/trained_model.h"
#include "planner/cost.h"
#include "planner/model_blocks.h"
#include "planner/step_program.h"
#include "planner/strategy.h"

namespace gpuplan {

/// What a plan is made of; all of it outlives the program.
struct PlanInput {
  const TrainedModel& model;
  const Recipe& recipe;
  const FrameworkConvention& framework;
  const Strategy& strategy;
  const ClusterSpec& cluster;
};

/// [begin, end) of the model's units per pipeline stage (0 embedding, 1 … L layers, L + 1 head), balanced by resident
/// bytes with the head and its logits counted, weighted by the memory of each stage's GPU.
std::vector<std::uint16_t> stage_bounds(const PlanInput& input, const StepProgram& program, const ModelBlocks& blocks,
                                        const DtypePolicy& numerics);

/// Builds into `program`, whose storage is reused. `columns` are cost models, one per kind of GPU in `gpu_column`
/// (per rank used; empty: all on column 0).
void build_step_program(StepProgram& program, const PlanInput& input, std::span<const CostModel> columns,
                        std::span<const std::size_t> gpu_column = {});

}  // namespace gpuplan
