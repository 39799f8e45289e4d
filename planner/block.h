// From op lists to lifetimes: a local is allocated where it is first written and freed after its last use; what
// backward reads stays in the frame. Checkpointing is a choice of what stays, and the recompute is the forward list
// sliced back from what is missing, with what the framework runs beside it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/cost.h"
#include "planner/job.h"
#include "planner/step_program.h"

namespace gpuplan {

/// Says which tensors a checkpointed layer keeps beside its input.
enum class KeepPolicy : std::uint8_t { Nothing, AllButScores, EverySecondMatmul, MatmulsAndAttention };

/// Block ids of a kind of layer, the first of each phase; kNoBlock where a recipe does not need one.
struct LayerBlocks {
  BlockId forward = kNoBlock, forward_drop = kNoBlock, recompute = kNoBlock, backward = kNoBlock,
          backward_dropped = kNoBlock;
  bool recomputes_output = false;
  bool operator==(const LayerBlocks&) const = default;
};

/// Blocks of one kind of layer.
struct KindBlocks {
  LayerBlocks full, windowed;  // windowed: with a sliding window that the sequence exceeds
  bool keeps_input = false;    // backward of an unchecked layer reads its input
  bool makes_dx = true;        // backward writes the gradient of its input
  bool runs_backward = true;   // of a frozen tower: forward only
  std::uint8_t graph{};        // of the full layer
  bool operator==(const KindBlocks&) const = default;
};

/// Blocks of a model's units. They depend on model, framework, recipe, dtypes and the degrees that divide
/// a layer, on nothing else of the strategy or the cluster.
struct ModelBlocks {
  std::vector<LayerGraph> graphs;
  std::vector<Block> blocks;
  std::size_t num_graphs{}, num_blocks{};  // storage is reused; these many are valid
  std::vector<KindBlocks> kinds;
  bool has_windowed = false;
  BlockId embedding = kNoBlock, embedding_backward = kNoBlock, head = kNoBlock;
  BlockId head_backward = kNoBlock;  // where passes of other models stand before it
  bool head_keeps_input = false;     // which it reads then

  /// A program that calls these can call the others, too: they have the same numbers.
  bool are_called_like(const ModelBlocks& other) const {
    return kinds == other.kinds && has_windowed == other.has_windowed && embedding == other.embedding &&
           embedding_backward == other.embedding_backward && head == other.head && num_blocks == other.num_blocks;
  }
  std::span<const LayerGraph> all_graphs() const { return {graphs.data(), num_graphs}; }
  std::span<const Block> all_blocks() const { return {blocks.data(), num_blocks}; }
};

/// Adds the blocks of a layer graph: plain ones when `plain`, checkpointed ones when `checkpointed`.
LayerBlocks add_layer_blocks(ModelBlocks& to, std::uint8_t graph, bool plain, bool checkpointed, KeepPolicy policy,
                             RecomputedOps recomputes = RecomputedOps::Read);

/// A phase that runs graph.forward (or .backward) from its slots to its slots, keeping nothing.
BlockId add_whole_block(ModelBlocks& to, std::uint8_t graph, bool backward);

/// Makes the job's blocks in `out`, whose storage is reused.
void make_blocks(ModelBlocks& out, const Job& job);
/// The same under another recipe.
void make_blocks(ModelBlocks& out, const Job& job, const Recipe& recipe);

/// Gives what the blocks of `program` cost on one kind of GPU.
std::vector<BlockCost> block_costs(const StepProgram& program, const CostModel& model);

/// Says when `count` kernels of a block end, `work` long together and alike, on a device that waits for nothing but
/// their launch, `dispatch` apart; `before` is when the kernel before them ended, `launched` when it had been launched.
///
/// Kernel k of them begins at max(end of kernel k - 1, L + (k + 1) d). Over alike kernels of w each that is linear in
/// k, so only its ends count: E = max(max(before, L + d) + count w, L + count d + w). Started at 0, this is max over
/// k of ((k + 1) d + the work from k on), the block's host tail c; a block that the host begins to launch at H and
/// whose inputs are there at `start` ends at max(start + work, H + c), as both are max-plus paths to its last kernel.
Seconds launched_end(Seconds before, Seconds launched, std::int64_t count, Seconds work, Seconds dispatch);

/// Bytes of locals that a layer keeps between forward and backward, by local; for --explain and tests.
std::vector<LocalId> saved_locals(const LayerGraph& graph);

}  // namespace gpuplan
