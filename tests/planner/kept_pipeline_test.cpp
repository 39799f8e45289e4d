// Pipelines of torch: weights stay gathered, gradients are summed unsharded and reduced behind the last backward, and
// what is received, sent and put out lives longer than it is used.
#include <doctest/doctest.h>

#include <algorithm>

#include "models/catalogue.h"
#include "models/stack.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr std::int64_t kMicroBatches = 4;

/// 8 layers of the tiny model in 2 stages, each of which 2 ranks shard.
struct Titan : Plan {
  explicit Titan(std::int64_t chunks = 1, std::int64_t layers = 8) {
    spec = tiny_llama(layers);
    framework = find_framework("torchtitan");
    recipe.framework = std::string("torchtitan");
    recipe.grad_accum = kMicroBatches;
    recipe.precision = Precision::Bf16Mixed;
    recipe.checkpointing = Checkpointing::Full;
    cluster = plain_cluster(4);
    options.pp = 2, options.virtual_stages = chunks;
    FrameworkPipeline& p = framework.pipeline;
    p.counts_ends = false;
    p.holds_received = p.holds_outputs = p.holds_input_gradients = p.merges_outputs = false;
  }
  std::int64_t count(std::size_t k, OpCode op) const {
    return std::ranges::count(of_rank(k).instructions, op, &Instruction::op);
  }
  /// Bytes that are let go at the end of the step.
  std::int64_t held_to_end(std::size_t k) const {
    const Instruction& last = of_rank(k).instructions.back();
    if (last.op != OpCode::Release) return 0;
    std::int64_t bytes = 0;
    for (const Operand o : of_rank(k).operands_of(last)) bytes += of_rank(k).buffers[operand::id(o)].bytes.count;
    return bytes;
  }
};

}  // namespace

TEST_CASE("torch's pipelines gather each unit once in a step, and reduce it once, behind the last backward") {
  for (const std::int64_t chunks : {1, 2}) {
    Titan plan(chunks);
    plan.build("fsdp");
    verify(plan.program);
    for (std::size_t k = 0; k < 2; ++k) {
      CAPTURE(k);
      // 4 layers, and the root's end of the model
      CHECK(plan.count(k, OpCode::AllGather) == 5);
      CHECK(plan.count(k, OpCode::ReduceScatter) == 5);
      const auto& all = plan.of_rank(k).instructions;
      const auto first = std::ranges::find(all, OpCode::ReduceScatter, &Instruction::op);
      const auto calls = std::count_if(first, all.end(), [](const Instruction& i) { return i.op == OpCode::Call; });
      if (chunks == 1) CHECK(calls == 0);
      // of two chunks the second ends first: its gradients are gone while the first one's are made
      if (chunks == 2) CHECK(calls > 0);
    }
    plan.framework.pipeline.keeps_gathered = false;  // every visit gathers what it uses, forward and backward
    plan.build("fsdp");
    CHECK(plan.count(0, OpCode::AllGather) > 2 * kMicroBatches * 4);
  }
}

TEST_CASE("gradients of micro-batches that are not reduced are summed in the dtype of the reduction") {
  Titan plan;
  plan.build("fsdp");
  // of a layer: 16-bit ones of every micro-batch, and one sum in fp32
  std::int64_t sums = 0, written = 0;
  for (const ProgramBuffer& b : plan.of_rank(0).buffers)
    if (b.unit == 2 && b.role == BufferRole::FullGradient) (b.bytes == Bytes{4 * kTinyLayer} ? sums : written) += 1;
  CHECK(sums == 1);
  CHECK(written == kMicroBatches);
}

TEST_CASE("what torch's pipelines hold of every micro-batch until the next step") {
  Titan plan;
  plan.build("fsdp");
  CHECK(plan.held_to_end(0) == 0);
  const std::int64_t tokens = plan.job().recipe().tokens(), boundary = 2 * tokens * plan.spec.hidden_size;
  const auto held = [&](bool FrameworkPipeline::*what, std::size_t k) {
    Titan with;
    with.framework.pipeline.*what = true;
    with.build("fsdp");
    verify(with.program);
    return with.held_to_end(k);
  };
  // stage 0 sends activations and receives gradients, stage 1 the other way round and puts logits out
  CHECK(held(&FrameworkPipeline::holds_received, 0) == kMicroBatches * boundary);
  CHECK(held(&FrameworkPipeline::holds_received, 1) == kMicroBatches * boundary);
  CHECK(held(&FrameworkPipeline::holds_outputs, 0) == kMicroBatches * boundary);
  CHECK(held(&FrameworkPipeline::holds_outputs, 1) == 0);
  CHECK(held(&FrameworkPipeline::holds_input_gradients, 0) == 0);
  CHECK(held(&FrameworkPipeline::holds_input_gradients, 1) == kMicroBatches * boundary);
  CHECK(held(&FrameworkPipeline::merges_outputs, 0) == 0);
  CHECK(held(&FrameworkPipeline::merges_outputs, 1) == kMicroBatches * 2 * tokens * plan.spec.vocab_size);
}

TEST_CASE("torch's pipelines are the same program with layers folded and written out") {
  for (const std::int64_t chunks : {1, 2})
    for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full}) {
      Titan plan(chunks, 64);
      plan.recipe.checkpointing = checkpointing;
      FrameworkPipeline& p = plan.framework.pipeline;
      p.holds_received = p.holds_outputs = p.holds_input_gradients = p.merges_outputs = true;
      plan.build("fsdp");
      verify(plan.program);
      StepProgram folded;
      build_step_program(folded, plan.job(), {}, {}, nullptr, Layers::Folded);
      for (std::size_t k = 0; k < 2; ++k) {
        CHECK(replay(folded, folded.classes[k]).tensors == replay(plan.program, plan.program.classes[k]).tensors);
        CHECK(written_out(folded.programs[k]).instructions.size() == plan.of_rank(k).instructions.size());
      }
    }
}

TEST_CASE("versions of torch and torchtitan say what a pipeline holds") {
  const auto at = [](const char* date) {
    return resolve_framework("torchtitan", {.given = {}, .date = date}, "llama");
  };
  const auto old = at("2025-06-30"), now = at("2026-08-01");
  CHECK(old.pipeline.holds_outputs);
  CHECK(old.pipeline.holds_input_gradients);
  CHECK(old.pipeline.merges_outputs);
  CHECK_FALSE(now.pipeline.holds_outputs);
  CHECK_FALSE(now.pipeline.holds_input_gradients);
  CHECK_FALSE(now.pipeline.merges_outputs);
  for (const FrameworkConvention& record : {old, now}) {
    CHECK(record.pipeline.keeps_gathered);
    CHECK(record.pipeline.holds_received);
  }
}
