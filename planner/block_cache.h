// Blocks of a model and their costs, kept while plans of it are evaluated: plans that differ in strategy, cluster or
// number of micro-batches call the same ones. Owned by who evaluates the plans; one per thread.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "planner/block.h"

namespace gpuplan {

/// Belongs to one ModelSpec. Holds the blocks of one recipe in every batch and dtype that was asked for; those of
/// another recipe take their place. What it hands out stays as it is.
class BlockCache {
 public:
  /// The job's blocks.
  std::shared_ptr<ModelBlocks> blocks_of(const Job& job);

  /// Two sets of blocks that this has handed out are called by the same instructions: they differ in the micro batch
  /// alone, or in a precision of the same dtypes, which decides what a block keeps of the logits.
  bool serve_one_program(const ModelBlocks& blocks, const ModelBlocks& others) const;

  /// Costs of the program's blocks.
  std::vector<BlockCost> costs_of(const StepProgram& program, const CostModel& device);

 private:
  /// Holds what blocks of one recipe depend on. With more than one micro-batch, gradients are added to earlier ones.
  struct Key {
    std::int64_t micro_batch{};
    Precision precision{};
    std::int64_t seq_len{};
    bool accumulates{};
    DtypePolicy numerics;
    Mesh divided_by;  // the degrees that cut a layer
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::shared_ptr<ModelBlocks> blocks;
    std::vector<std::pair<CostModel, std::vector<BlockCost>>> costs;
  };
  bool holds(const Recipe& recipe);

  Recipe recipe_;  // of all entries, but for batch and precision
  std::vector<Entry> entries_;
};

}  // namespace gpuplan
