// Plans built with a block cache against the same plans built alone.
#include <doctest/doctest.h>

#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

struct Cached : Plan {
  BlockCache cache;
  Profile profile = default_profile(std::string("a100-sxm-80gb"));
  CostModel device = make_cost_model(cluster.gpus.front(), profile, {.dtype = Dtype::BF16});

  /// The plan of `job()` under `name` with what earlier plans left in the cache; false: not possible.
  bool build_cached(std::string_view name) {
    strategy = make_strategy(name, cluster, options);
    if (!why_not_applicable(strategy, cluster, recipe, spec).empty()) return false;
    build_step_program(program, job(), {&device, 1}, {}, &cache);
    return true;
  }
};

void check_alike(const Cached& plan, const CostModel& device) {
  StepProgram alone;
  build_step_program(alone, plan.job(), {&device, 1});
  REQUIRE(plan.program.classes.size() == alone.classes.size());
  for (std::size_t k = 0; k < alone.classes.size(); ++k) {
    const Peak shared = plan.peak(k), own = replay(alone, alone.classes[k]);
    CHECK(shared.tensors == own.tensors);
    CHECK(shared.pools == own.pools);
    CHECK(shared.host == own.host);
    CHECK(shared.instruction == own.instruction);
  }
  const CommModel comm = make_comm_model(plan.cluster, plan.profile, plan.strategy.mesh);
  const StepTime shared = forward_pass(plan.program, {&device, 1}, comm), own = forward_pass(alone, {&device, 1}, comm);
  CHECK(shared.step == own.step);
  CHECK(shared.compute == own.compute);
  CHECK(shared.host == own.host);
  CHECK(shared.flops == own.flops);
}

}  // namespace

TEST_CASE("a plan built with a block cache is the one built alone, whatever was built before") {
  Cached plan;
  int num_plans = 0;
  for (const Method method : {Method::Full, Method::Lora})
    for (const Precision precision : {Precision::Bf16True, Precision::Bf16Mixed})
      for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full, Checkpointing::Selective})
        for (const std::int64_t micro_batch : {1, 4})
          for (const std::int64_t grad_accum : {1, 2, 5})
            for (const std::string_view name : strategy_names()) {
              plan.recipe.method = method, plan.recipe.precision = precision;
              plan.recipe.checkpointing = checkpointing;
              plan.recipe.micro_batch = micro_batch, plan.recipe.grad_accum = grad_accum;
              if (!plan.build_cached(name)) continue;
              CAPTURE(name);
              check_alike(plan, plan.device);
              ++num_plans;
            }
  CHECK(num_plans > 72 * 5);
}

TEST_CASE("strategies share blocks; batches, accumulation and recipes have their own") {
  Cached plan;
  plan.recipe.precision = Precision::Bf16True;
  REQUIRE(plan.build_cached("ddp"));
  const std::shared_ptr<ModelBlocks> blocks = plan.program.made;
  const std::int64_t peak = blocks->blocks.front().total.peak;
  REQUIRE(plan.build_cached("mp"));
  CHECK(plan.program.made == blocks);
  plan.recipe.micro_batch = 2;
  REQUIRE(plan.build_cached("ddp"));
  CHECK(plan.program.made != blocks);
  plan.recipe.micro_batch = 1, plan.recipe.grad_accum = 3;
  REQUIRE(plan.build_cached("ddp"));
  CHECK(plan.program.made != blocks);
  plan.recipe.grad_accum = 1;
  REQUIRE(plan.build_cached("ddp"));
  CHECK(plan.program.made == blocks);  // still there
  plan.recipe.checkpointing = Checkpointing::Full;
  REQUIRE(plan.build_cached("ddp"));
  CHECK(plan.program.made != blocks);
  CHECK(blocks->blocks.front().total.peak == peak);  // what was handed out stays as it is
}
