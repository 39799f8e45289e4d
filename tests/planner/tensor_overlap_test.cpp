// Tests what exchanges of tensor parallelism hide beside, where a compiler joins them to products.
#include <doctest/doctest.h>

#include "planner/instruction_cost.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

TEST_CASE("an exchange hides beside its own products but for the piece that each rank begins with") {
  StepProgram all;
  all.mesh = Mesh{{Axis::Tp, 4}};
  all.costs = {{BlockCost{.device = {3}}}};
  std::vector<Block> blocks(1);
  all.blocks = blocks;
  Instruction i{.op = OpCode::AllGather, .axis = Axis::Tp, .block = 0};
  CHECK(exposed_share(all, i, 0, {4}, 0.2) == 1);  // compute waits for all of it
  i.is_of_own_shard = true;
  CHECK(exposed_share(all, i, 0, {4}, 0.2) == doctest::Approx((4 - 3 * 0.75) / 4));
  CHECK(exposed_share(all, i, 0, {2.25}, 0.2) == doctest::Approx(0));
  CHECK(exposed_share(all, i, 0, {1}, 0.2) == 0);
  blocks[0].goes_with_columns = true;  // beside another product, which takes a fifth longer meanwhile
  CHECK(exposed_share(all, i, 0, {4}, 0.2) == doctest::Approx((4 - 3 + 0.2 * 3) / 4));
  CHECK(exposed_share(all, i, 0, {1}, 0.2) == doctest::Approx(0.2));
  i.op = OpCode::Call;
  CHECK(exposed_share(all, i, 0, {4}, 0.2) == 1);
}

TEST_CASE("a compiler joins gathers to what reads them and scatters to the one product that makes them") {
  Plan plan;
  plan.framework = find_framework("torchtitan");
  plan.recipe.checkpointing = Checkpointing::None;
  plan.recipe.torch_compile = true;
  plan.cluster = plain_cluster(2);
  plan.options.tp = 2, plan.options.splits_sequence = true;
  struct Counts {
    int gathers = 0, scatters = 0;
  };
  const auto joined = [&](std::optional<bool> overlaps, bool runs_backward) {
    plan.options.overlaps_tensor_parallel = overlaps;
    plan.build("single");
    verify(plan.program);
    Counts out;
    for (const Instruction& i : plan.of_rank().instructions) {
      if (i.unit != 2 || !runs_block(i) || !i.is_of_own_shard) continue;
      if (plan.program.blocks[i.block].runs_backward != runs_backward) continue;
      CHECK(i.stream == StreamId::Compute);
      (i.op == OpCode::AllGather ? out.gathers : out.scatters) += 1;
    }
    return out;
  };
  for (const bool runs_backward : {false, true}) {  // torchtitan has it off
    CHECK(joined({}, runs_backward).gathers == 0);
    CHECK(joined(false, runs_backward).scatters == 0);
  }
  // forward: before q, k, v and gate, up; behind o and down
  CHECK(joined(true, false).gathers == 2);
  CHECK(joined(true, false).scatters == 2);
  // backward: of the gradients of o and down; those of q, k, v and of gate, up are sums
  CHECK(joined(true, true).gathers == 2);
  CHECK(joined(true, true).scatters == 0);
  // the products beside a gather are those of q, k and v: 2 x 32 tokens x 64 x (32 + 16 + 16) in all
  CostModel device;
  device.gemm = device.gemm_fp32 = device.batched_gemm = device.flash = device.cudnn = {1e6};
  device.memory = {1e30};
  plan.build("single", {device});
  const auto& program = plan.of_rank();
  const auto first = std::ranges::find_if(program.instructions, [](const Instruction& i) {
    return i.unit == 2 && i.op == OpCode::AllGather && runs_block(i);
  });
  REQUIRE(first != program.instructions.end());
  double flops = 0;
  const Block& block = plan.program.blocks[first->block];
  const auto& ops = plan.program.graphs[block.graph].forward;
  for (const LayerOp& op : ops)
    if (op.cost == CostClass::Gemm && flops < 2.0 * 32 * 64 * 64) flops += op.flops;
  CHECK(flops == 2.0 * 32 * 64 * 64);
  CHECK(plan.program.costs[0][first->block].device.value >= flops / 1e6);
  CHECK(plan.program.costs[0][first->block].device.value < 1.5 * flops / 1e6);
}
