// Elementwise recompute: matmul and attention results stay, norms and activation functions run again.
#include <doctest/doctest.h>

#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

struct Counts {
  int matmuls{}, others{};
};

/// Ops of a block, by whether they keep the tensor cores busy.
Counts ops_of(const ModelBlocks& program, BlockId id) {
  const Block& block = program.blocks[id];
  const LayerGraph& graph = program.graphs[block.graph];
  Counts counts;
  for (const BlockEvent& event : block.events)
    if (event.kind == BlockEvent::Run)
      ++(graph.forward[event.index].cost == CostClass::Memory ? counts.others : counts.matmuls);
  return counts;
}

ModelBlocks one_layer(Ledger& ledger) {
  ModelBlocks program;
  program.graphs.push_back(ledger.layer(tiny_llama()));
  program.num_graphs = 1;
  return program;
}

}  // namespace

TEST_CASE("elementwise recompute runs no matmul again, full recompute runs them") {
  Ledger ledger;
  ledger.recipe.attention = AttentionKernel::Flash;
  ModelBlocks program = one_layer(ledger);
  const LayerBlocks some = add_layer_blocks(program, 0, false, true, KeepPolicy::MatmulsAndAttention),
                    all = add_layer_blocks(program, 0, false, true, KeepPolicy::Nothing);
  CHECK(ops_of(program, some.recompute).matmuls == 0);
  CHECK(ops_of(program, some.recompute).others > 0);
  CHECK(ops_of(program, all.recompute).matmuls > 0);
}

TEST_CASE("elementwise recompute keeps less than no recompute and more than full recompute") {
  const auto peak = [](Checkpointing kind) {
    Plan plan;
    plan.recipe.seq_len = 512, plan.recipe.micro_batch = 8;  // activations set the peak
    plan.recipe.checkpointing = kind;
    return plan.build("single").peak().tensors;
  };
  CHECK(peak(Checkpointing::Elementwise) < peak(Checkpointing::None));
  CHECK(peak(Checkpointing::Elementwise) > peak(Checkpointing::Full));
}
