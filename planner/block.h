// From op lists to lifetimes: a local is allocated where it is first written and freed after its last use; what backward
// reads stays in the frame. Checkpointing is a choice of what stays, and the recompute is the forward list sliced back from
// what is missing.
#pragma once

#include <cstdint>

#include "models/recipe.h"
#include "planner/cost.h"
#include "planner/step_program.h"

namespace gpuplan {

/// Which tensors a checkpointed layer keeps beside its input.
enum class KeepPolicy : std::uint8_t { Nothing, AllButScores, EverySecondMatmul, MatmulsAndAttention };

/// Block ids of a kind of layer; kNoBlock where a recipe does not need one.
constexpr std::uint8_t kNoBlock = 0xff;
struct LayerBlocks {
  std::uint8_t forward = kNoBlock, forward_drop = kNoBlock, recompute = kNoBlock, backward = kNoBlock,
               backward_dropped = kNoBlock;
};

/// Adds the blocks of a layer graph: plain ones when `plain`, checkpointed ones when `checkpointed`.
LayerBlocks add_layer_blocks(StepProgram& program, std::uint8_t graph, bool plain, bool checkpointed,
                             KeepPolicy policy);

/// One block that runs graph.forward (or .backward) from its slots to its slots, keeping nothing.
std::uint8_t add_whole_block(StepProgram& program, std::uint8_t graph, bool backward);

/// Costs of every block of `program` on one kind of GPU, as a new column; returns its index.
std::size_t add_costs(StepProgram& program, const CostModel& model);

/// Bytes of locals that a layer keeps between forward and backward, by local; for --explain and tests.
std::vector<LocalId> saved_locals(const LayerGraph& graph);

}  // namespace gpuplan
