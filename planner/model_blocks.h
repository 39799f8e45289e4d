// The blocks of a model under a recipe: op graphs emitted by the ledger, closed into lifetimes. Shared by all stages
// and ranks.
#pragma once

#include <vector>

#include "planner/block.h"
#include "planner/job.h"

namespace gpuplan {

/// Blocks of one kind of layer.
struct KindBlocks {
  LayerBlocks full, windowed;  // windowed: with a sliding window that the sequence exceeds
  bool keeps_input = false;    // backward of an unchecked layer reads its input
  std::uint8_t graph{};        // of the full layer
};

struct ModelBlocks {
  std::vector<KindBlocks> kinds;
  bool has_windowed = false;
  std::uint8_t embedding = kNoBlock, embedding_backward = kNoBlock, head = kNoBlock;
};

/// Fills program.graphs and program.blocks (their storage is reused).
ModelBlocks make_blocks(StepProgram& program, const Job& job);

}  // namespace gpuplan
