// A checkpointed layer runs again what backward reads, what stands before the last tensor that it saves (the early stop
// of PyTorch's checkpoints), or all of it (reentrant ones, Megatron's).
#include <doctest/doctest.h>

#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// Products of the base with the weight of `slot`, and of its adapter, in what runs again.
struct Products {
  int base{}, adapter{};
  bool makes_output{};
};

Products of_down(Ledger& ledger, RecomputedOps which) {
  ModelBlocks program;
  program.graphs.push_back(ledger.layer(tiny_llama()));
  program.num_graphs = 1;
  const LayerBlocks blocks = add_layer_blocks(program, 0, false, true, KeepPolicy::Nothing, which);
  const Block& again = program.blocks[blocks.recompute];
  const LayerGraph& graph = program.graphs[again.graph];
  const TrainedModel model = prepare(tiny_llama(), ledger.recipe, ledger.framework);
  const auto& tensors = model.weights.kinds[0].tensors;
  Products out;
  out.makes_output = blocks.recomputes_output;
  for (const BlockEvent& event : again.events) {
    if (event.kind != BlockEvent::Run) continue;
    const LayerOp& op = graph.forward[event.index];
    if (op.weight >= tensors.size() || tensors[op.weight].slot != LinearSlot::Down) continue;
    if (op.kind != OpKind::Linear) continue;
    ++(op.use == WeightUse::LowRankA || op.use == WeightUse::LowRankB ? out.adapter : out.base);
  }
  return out;
}

}  // namespace

TEST_CASE("the product that ends a layer runs again where its adapter's input is the last tensor saved") {
  Ledger full, lora;
  full.framework = lora.framework = find_framework("native");  // whose ops name the weights that they use
  lora.recipe.method = Method::Lora, lora.recipe.lora.rank = 8;
  const auto products = [](Ledger& ledger, RecomputedOps which, int base, int adapter, bool makes_output) {
    const Products p = of_down(ledger, which);
    CHECK(p.base == base);
    CHECK(p.adapter == adapter);
    CHECK(p.makes_output == makes_output);
  };
  products(full, RecomputedOps::Read, 0, 0, false);
  products(full, RecomputedOps::UntilLastSaved, 0, 0, false);  // its own input is the last
  products(full, RecomputedOps::All, 1, 0, true);
  products(lora, RecomputedOps::Read, 0, 1, false);  // A, whose output B's gradient reads
  products(lora, RecomputedOps::UntilLastSaved, 1, 1, false);
  products(lora, RecomputedOps::All, 1, 2, true);
}

TEST_CASE("a reentrant checkpoint holds its recomputed output until the layer's backward is over") {
  Plan plan;
  plan.recipe.checkpointing = Checkpointing::Full;
  plan.recipe.precision = Precision::Bf16True;
  plan.framework.layers.recomputes = RecomputedOps::All;
  const auto peak = [&](bool is_reentrant) {
    plan.framework.layers.checkpoints_reentrantly = is_reentrant;
    return plan.build("single").peak().tensors.count;
  };
  const std::int64_t boundary = 2 * 32 * 64;  // 32 tokens of 64 in 16 bit
  CHECK(peak(true) == peak(false) + boundary);
}
