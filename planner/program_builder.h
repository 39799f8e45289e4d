// Builds the step program of a strategy: a schedule lists visits to units, the state layout turns visits into gathers,
// calls, reduces and steps. One builder for every row of the strategy table; nothing here asks for a strategy's name.
#pragma once

#include <span>
#include <vector>

#include "planner/block_cache.h"
#include "planner/cost.h"
#include "planner/job.h"
#include "planner/step_program.h"

namespace gpuplan {

/// [begin, end) of the model's units per pipeline stage (0 embedding, 1 … L layers, L + 1 head), so that the fullest
/// stage is as empty as can be, in micro-batches, at the optimizer step and in evaluation, with what the allocator
/// keeps from the one to the other; weighted by the memory of each stage's GPU.
std::vector<std::uint16_t> stage_bounds(const Job& job, const StepProgram& program, const ModelBlocks& blocks);

/// Builds into `program`, whose storage is reused. `columns` are cost models, one per kind of GPU in `gpu_column`
/// (per rank used; empty: all on column 0). `cache`, where there is one, has the blocks or gets them. `layers` that are
/// folded make a program that is built and read in a fraction of the time; expanded (`written_out`), it is the same.
void build_step_program(StepProgram& program, const Job& job, std::span<const CostModel> columns,
                        std::span<const std::size_t> gpu_column = {}, BlockCache* cache = nullptr,
                        Layers layers = Layers::WrittenOut);

}  // namespace gpuplan
