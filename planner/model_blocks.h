// The blocks of a model under a recipe: op graphs emitted by the ledger, closed into lifetimes. Shared by all stages and ranks.
#pragma once

#include "models/framework.h"
#include "models/numerics.h"
#include "models/recipe.h"
#include "models/trained_model.h"
#include "planner/block.h"

namespace gpuplan {

struct ModelBlocks {
  LayerBlocks layer, windowed;  // windowed: layers with a sliding window, where the sequence exceeds it
  bool has_windowed = false;
  bool keeps_input = false;  // backward of an unchecked layer reads its input
  std::uint8_t embedding = kNoBlock, embedding_backward = kNoBlock, head = kNoBlock;
};

/// Fills program.graphs and program.blocks (their storage is reused).
ModelBlocks make_blocks(StepProgram& program, const TrainedModel& model, const Recipe& recipe,
                        const FrameworkConvention& framework, const Numerics& numerics);

}  // namespace gpuplan
