#include "planner/block_cache.h"

#include <algorithm>

namespace gpuplan {

/// Says whether `recipe` differs in its batch, its precision, or what no block depends on.
bool BlockCache::holds(const Recipe& recipe) {
  recipe_.precision = recipe.precision;
  recipe_.optimizer = recipe.optimizer;
  recipe_.offload = recipe.offload;
  recipe_.micro_batch = recipe.micro_batch;
  recipe_.seq_len = recipe.seq_len;
  recipe_.grad_accum = recipe.grad_accum;
  return recipe_ == recipe;
}

std::shared_ptr<ModelBlocks> BlockCache::blocks_of(const Job& job) {
  const Recipe& recipe = job.recipe();
  if (!holds(recipe)) {
    recipe_ = recipe;
    entries_.clear();
  }
  const Key key{recipe.micro_batch,    recipe.precision, recipe.seq_len,
                recipe.grad_accum > 1, job.numerics,     job.strategy.mesh.within_layers()};
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
  if (at != entries_.end()) return at->blocks;
  auto blocks = std::make_shared<ModelBlocks>();
  make_blocks(*blocks, job);
  return entries_.emplace_back(Entry{key, std::move(blocks), {}}).blocks;
}

bool BlockCache::serve_one_program(const ModelBlocks& blocks, const ModelBlocks& others) const {
  const auto entry_of = [&](const ModelBlocks& wanted) {
    return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.blocks.get() == &wanted; });
  };
  const auto one = entry_of(blocks), other = entry_of(others);
  if (one == entries_.end() || other == entries_.end()) return false;
  Key key = one->key;
  key.micro_batch = other->key.micro_batch, key.precision = other->key.precision;
  return key == other->key && blocks.are_called_like(others);
}

std::vector<BlockCost> BlockCache::costs_of(const StepProgram& program, const CostModel& device) {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.blocks == program.made; });
  if (entry == entries_.end()) return block_costs(program, device);
  auto& known = entry->costs;
  const auto at = std::find_if(known.begin(), known.end(), [&](const auto& c) { return c.first == device; });
  if (at != known.end()) return at->second;
  return known.emplace_back(device, block_costs(program, device)).second;
}

}  // namespace gpuplan
