// Published runs that the simulator has to explain: four runs of a course on one box, and the T5 models of the FSDP
// paper on many nodes.
#include <doctest/doctest.h>

#include <cmath>

#include "sim/simulated.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// LoRA r = 8 on all linears, bf16, eager attention, checkpointing, 1,024 rows of 1,024 tokens, on the box of the
/// course.
SimulatedPlan course_run(const char* model, std::int64_t batch, std::int64_t accumulation, const char* strategy) {
  EstimateRequest r;
  r.model = load_model(model).spec;
  r.recipe.method = Method::Lora;
  r.recipe.lora = LoraSpec{};
  r.recipe.precision = Precision::Bf16True;
  r.recipe.attention = AttentionKernel::Eager;
  r.recipe.checkpointing = Checkpointing::Full;
  r.recipe.micro_batch = batch;
  r.recipe.grad_accum = accumulation;
  r.recipe.seq_len = 1024;
  r.dataset.rows = 1024;
  r.cluster = load_cluster("4xRTX6000Ada-hoststaged", {});
  return simulated(r, strategy);
}

void check_run(const SimulatedPlan& plan, double seconds, double resident) {
  CAPTURE(plan.epoch.value);
  CAPTURE(plan.simulation.resident);
  CHECK(std::abs(plan.epoch.value / seconds - 1) <= 0.15);
  CHECK(std::abs(plan.simulation.resident - resident) <= 0.10);
}

double flops_per_second(std::int64_t nodes, const char* model, const char* strategy) {
  EstimateRequest r;
  r.model = load_model(model).spec;
  r.recipe.method = Method::Full;
  r.recipe.micro_batch = 8;
  r.recipe.seq_len = 512;
  r.cluster = load_cluster("dgx-a100-80gb", 8 * nodes);
  const Simulation s = simulated(r, strategy).simulation;
  return s.executed_flops / s.step_time().value;
}

}  // namespace

TEST_CASE("the four runs of the course, with two numbers of their box inferred from them") {
  const SimulatedPlan mp = course_run("tinyllama-1.1b", 16, 2, "mp"), ddp = course_run("tinyllama-1.1b", 16, 2, "ddp");
  check_run(mp, 233, 0.24);
  check_run(ddp, 59, 0.90);
  CHECK(mp.epoch.value / ddp.epoch.value == doctest::Approx(3.95).epsilon(0.03));
  check_run(course_run("codellama-34b", 4, 4, "mp"), 47 * 60, 0.20);
  check_run(course_run("codellama-34b", 4, 4, "fsdp"), 30 * 60, 1.00);
}

TEST_CASE(
    "T5 under FSDP loses a few percent per GPU from one node to sixty-four, and HSDP loses less where the model is "
    "small") {
  const double one = flops_per_second(1, "t5-2.28b", "fsdp"), many = flops_per_second(64, "t5-2.28b", "fsdp");
  CHECK(many <= 0.96 * one);
  // 0.90 for the network alone. Each unit waits for the slowest of 512 GPUs that differ by 1.5 %, not of 8, which is
  // 2.4 % more: 0.90 / 1.024 = 0.879. (T5-11B, whose units are longer, lost 7 % as published.)
  CHECK(many >= 0.879 * one);
  CHECK(flops_per_second(64, "t5-2.28b", "hsdp") > many);
}
