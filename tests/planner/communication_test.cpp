// Bytes sent per rank and optimizer step: every data-parallel strategy (arXiv 1910.02054, section 7). c = (n - 1) / n;
// the tiny model divides by n, so nothing is padded and the figures are exact.
#include <doctest/doctest.h>

#include <cmath>

#include "planner/instruction_cost.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr std::int64_t P = kTinyModel, kLayers = 4 * kTinyLayer;
constexpr std::int64_t c(std::int64_t bytes) { return bytes / 4 * 3; }  // n = 4

Plan plan_of(std::int64_t micro_batches = 1) {
  Plan plan;
  plan.recipe.grad_accum = micro_batches;
  for (EngineConvention* e : {&plan.framework.fsdp1, &plan.framework.fsdp2, &plan.framework.zero})
    *e = {.prefetch_units = 1};
  return plan;
}

Plan lora_plan(std::int64_t micro_batches = 1) {
  Plan plan = plan_of(micro_batches);
  plan.recipe.method = Method::Lora;
  plan.recipe.lora.targets = {"q_proj", "v_proj"};
  return plan;
}
constexpr std::int64_t kAdapters = 4 * 8 * ((64 + 64) + (64 + 32));  // r = 8 on q and v of four layers

}  // namespace

TEST_CASE("DDP: 2 c P_t x 4 once, in the gradient's fp32, whatever the micro-batches") {
  CHECK(plan_of().build("ddp").sent() == 2 * c(4 * P));
  CHECK(plan_of(5).build("ddp").sent() == 2 * c(4 * P));  // no_sync
}

TEST_CASE(
    "a kernel adds each micro-batch's gradients to those before it: 3 x 4 bytes a parameter, of the first nothing") {
  // in fp32; AccumulateGrad takes the first gradient as it is
  Plan plan = plan_of(2);
  const auto summed = [&](const char* strategy) {
    Bytes out;
    plan.build(strategy);
    for (const Instruction& i : plan.of_rank().instructions)
      if (i.op == OpCode::Call) out += i.work;
    return out;
  };
  CHECK(summed("ddp").count == 12 * P);
  CHECK(summed("fsdp").count == 0);  // reduced with each micro-batch
  plan.framework.layers.accumulates_in_product = true;
  CHECK(summed("ddp").count == 0);
  plan = plan_of(1);
  CHECK(summed("ddp").count == 0);
  // beside 16-bit weights a main gradient in fp32 is there from the beginning: 2 read, 4 read and 4 written
  plan = plan_of(2);
  plan.framework = find_framework("megatron");
  plan.framework.layers.accumulates_in_product = false;
  CHECK(summed("ddp").count == 2 * 10 * P);
}

TEST_CASE("a sum of gradients takes its bytes at the rate of the memory") {
  const InstructionCost cost = [] {
    Plan plan = plan_of(2);
    CostModel device;
    device.gemm = device.gemm_fp32 = device.batched_gemm = device.flash = {1e15};
    device.memory = {1e9};
    plan.build("ddp", {device});
    const RankProgram& rank = plan.of_rank();
    for (const Instruction& i : rank.instructions)
      if (i.op == OpCode::Call && i.work.count > 0) {
        plan.program.costs[0][i.block] = {};
        return cost_of(plan.program, rank, i, 0, device, {});
      }
    return InstructionCost{};
  }();
  CHECK(cost.work.value == doctest::Approx(12.0 * (kTinyEmbedding + 64) / 1e9));  // of the head and the last norm
  CHECK(cost.host_tail == cost.work);
}

TEST_CASE("gradients are reduced behind the last backward pass, and compute waits, where the trainer does that") {
  Plan plan = plan_of(2);
  plan.framework = find_framework("megatron");
  for (const char* strategy : {"ddp", "zero1"})
    for (const bool at_end : {false, true}) {
      plan.framework.distributed.reduces_at_end = at_end;
      plan.framework.distributed.ddp_bucket_bytes = at_end ? std::int64_t(1) << 60 : 1;
      plan.build(strategy);
      verify(plan.program);
      std::size_t last_backward = 0, first_reduction = 0, at = 0;
      for (const Instruction& i : plan.of_rank().instructions) {
        ++at;
        if (i.op == OpCode::Call) last_backward = at;
        const bool reduces = i.op == OpCode::AllReduce || i.op == OpCode::ReduceScatter;
        if (reduces && first_reduction == 0) first_reduction = at;
        if (reduces) CHECK((i.stream == StreamId::Compute) == at_end);
      }
      INFO(strategy << " " << at_end);
      CHECK((first_reduction > last_backward) == at_end);
    }
}

TEST_CASE("ZeRO-1: gradients scattered, updated weights gathered, 2 Psi in 16 bit, once per step") {
  CHECK(plan_of().build("zero1").sent() == c(2 * P) + c(2 * P));
  CHECK(plan_of(5).build("zero1").sent() == c(2 * P) + c(2 * P));
}

TEST_CASE("ZeRO-2 scatters every micro-batch: (m + 1) Psi") {
  for (const std::int64_t m : {1, 2, 5}) CHECK(plan_of(m).build("zero2").sent() == m * c(2 * P) + c(2 * P));
}

TEST_CASE(
    "ranks that step whole parameters send them one by one: a message for each rank, or tensor if these are fewer") {
  // 64 ranks, 39 tensors (9 in each of four layers, embedding, last norm, head): 39 messages, of which a unit has its
  // share of the parameters
  Plan plan = plan_of();
  plan.cluster = plain_cluster(64);
  const auto messages = [&] {
    std::vector<std::int64_t> out;
    for (const Instruction& i : plan.of_rank().instructions)
      if (i.op == OpCode::AllGather) out.push_back(i.messages);
    return out;
  };
  plan.build("zero1");
  CHECK(messages() == std::vector<std::int64_t>(6, 1));
  const std::int64_t sent = plan.sent();
  plan.framework.zero.broadcasts_parts = true;
  CHECK(plan.build("zero1").sent() == sent);
  const auto layer = std::llround(39.0 * double(kTinyLayer) / double(P));
  const std::vector<std::int64_t> all = messages();
  REQUIRE(all.size() == 6);
  for (std::size_t k = 1; k < 5; ++k) CHECK(all[k] == layer);
  CHECK(layer > 1);
  CHECK_NOTHROW(verify(plan.program));
  plan.cluster = plain_cluster(2);  // two ranks: no more than a message for each unit
  plan.build("zero1");
  CHECK(messages() == std::vector<std::int64_t>(6, 1));
}

TEST_CASE("a flat step ends before weights are gathered; unit by unit each is gathered beside the next step") {
  Plan plan = plan_of();
  const auto order = [&] {
    std::string out;
    for (const Instruction& i : plan.of_rank().instructions)
      if (i.op == OpCode::AllGather || i.op == OpCode::OptimizerStep) out += i.op == OpCode::AllGather ? 'g' : 's';
    return out;
  };
  plan.build("zero1");
  CHECK(order() == "sgsgsgsgsgsg");
  plan.framework.zero.buckets_stage3.size = plan.framework.zero.buckets.size = 1 << 20;
  plan.build("zero1");
  CHECK(order() == "ssssssgggggg");
  CHECK_NOTHROW(verify(plan.program));
}

TEST_CASE("DeepSpeed all-reduces the buckets of stages 1 and 2, of which a rank keeps its part: twice the bytes") {
  // allreduce_and_scatter of deepspeed/runtime/zero/stage_1_and_2.py, use_multi_rank_bucket_allreduce
  Plan plan = plan_of(5);
  plan.framework.zero.all_reduces_buckets = true;
  CHECK(plan.build("zero1").sent() == 2 * c(2 * P) + c(2 * P));
  CHECK_NOTHROW(verify(plan.program));
  CHECK(plan.build("zero2").sent() == 5 * 2 * c(2 * P) + c(2 * P));
  CHECK_NOTHROW(verify(plan.program));
  const std::int64_t scattered = plan_of(5).build("zero3").sent();
  CHECK(plan.build("zero3").sent() == scattered);  // stage 3 scatters
}

TEST_CASE("ZeRO-3 and FSDP: 3 Psi per micro-batch, less the head, which is gathered once for forward and backward") {
  for (const char* name : {"zero3", "fsdp"})
    for (const std::int64_t m : {1, 2, 5}) {
      INFO(name << ", " << m);
      const std::int64_t head = kTinyEmbedding + 64;  // head and final norm: forward, loss and backward in one visit
      CHECK(plan_of(m).build(name).sent() == m * (c(2 * (2 * P - head)) + c(2 * P)));
    }
}

TEST_CASE("ZeRO++ gathers weights in 8 bit: 1 byte per parameter, not 2, and scatters gradients as before") {
  // CUDAQuantizer of deepspeed/runtime/zero/partition_parameters.py
  const std::int64_t head = kTinyEmbedding + 64;
  for (const std::int64_t m : {1, 3}) {
    Plan plan = plan_of(m);
    plan.framework.zero.gathers_int8 = true;
    CHECK(plan.build("zero3").sent() == m * (c(2 * P - head) + c(2 * P)));
    CHECK_NOTHROW(verify(plan.program));
    // what is used is 16-bit again: the copies of a layer and of the one gathered ahead are alive beside it
    CHECK(plan.live_peak(BufferRole::Gathered) >= 2 * kTinyLayer + kTinyLayer);
    CHECK(plan.build("zero2").sent() == m * c(2 * P) + c(2 * P));  // gathers nothing
    plan.cluster = plain_cluster(1);
    CHECK(plan.build("zero3").sent() == 0);
    CHECK_NOTHROW(verify(plan.program));
  }
}

TEST_CASE("FSDP that keeps its root gathers embedding and head once; under no_sync it scatters once per step") {
  Plan plan = plan_of(5);
  plan.framework.fsdp2.keeps_root_gathered = plan.framework.fsdp2.syncs_last_only = true;
  CHECK(plan.build("fsdp").sent() == 5 * (c(2 * 2 * kLayers) + c(2 * kTinyRoot)) + c(2 * P));
}

TEST_CASE("FSDP that reduces in fp32 sends 2 + 2 + 4 bytes per parameter, not 6") {
  Plan plan = plan_of();
  plan.framework.fsdp2.reduces_in_fp32 = true;
  CHECK(plan.build("fsdp").sent() == c(2 * (2 * P - kTinyEmbedding - 64)) + c(4 * P));
}

TEST_CASE("no reshard after forward: one gather less, 2 Psi per micro-batch") {
  for (const std::int64_t m : {1, 3}) CHECK(plan_of(m).build("fsdp-grad-op").sent() == m * (c(2 * P) + c(2 * P)));
}

TEST_CASE("HSDP: FSDP's traffic inside the group of q, and 2 (1 - q / n) P_t beta_r / q across, in the reduce dtype") {
  for (const bool fp32 : {false, true}) {
    Plan plan = plan_of();
    plan.cluster = plain_cluster(8);
    plan.options.shard_size = 4;  // q = 4, two replicas
    plan.framework.fsdp2.reduces_in_fp32 = fp32;
    const std::int64_t r = fp32 ? 4 : 2;
    const std::int64_t inside = c(2 * (2 * P - kTinyEmbedding - 64)) + c(r * P), across = 2 * (r * P / 4) / 2;
    CHECK(plan.build("hsdp").sent() == inside + across);
  }
}

TEST_CASE("HSDP crosses the replicas once per step, in the last micro-batch") {
  Plan one = plan_of(1), five = plan_of(5);
  for (Plan* plan : {&one, &five}) plan->cluster = plain_cluster(8), plan->options.shard_size = 4, plan->build("hsdp");
  CHECK(one.count(OpCode::AllReduce) == five.count(OpCode::AllReduce));
}

TEST_CASE("LoRA under DDP sends only adapters: 2 c P_t x 4") {
  CHECK(lora_plan().build("ddp").sent() == 2 * c(4 * kAdapters));
}

TEST_CASE("LoRA under FSDP still gathers the frozen weights twice; adapters travel in 16 bit, three times") {
  for (const std::int64_t m : {1, 3}) {
    // the head is gathered once, and so is the embedding: nothing below it is trained, so its backward does not run
    const std::int64_t frozen = 2 * (2 * kLayers + kTinyRoot);
    CHECK(lora_plan(m).build("fsdp").sent() == m * (c(frozen) + c(2 * 2 * kAdapters) + c(2 * kAdapters)));
  }
}

TEST_CASE("QLoRA under FSDP gathers packed halves of bytes; the scales stay whole on every rank") {
  Plan plan = lora_plan();
  plan.recipe.method = Method::Qlora;
  plan.recipe.quant.kind = BaseQuant::Nf4;
  plan.options.fsdp_version = 1;
  const std::int64_t packed = 4 * kTinyLinears / 2, norms = 2 * 4 * 2 * 64;
  CHECK(plan.build("fsdp").sent() == 2 * c(packed + norms) + c(2 * kTinyRoot) + 3 * c(2 * kAdapters));
}

TEST_CASE("model parallel: a boundary per direction and micro-batch; the ends of the pipeline send one way only") {
  Plan plan = plan_of(3);
  plan.recipe.precision = Precision::Bf16True;
  plan.build("mp");
  const std::int64_t boundary = 2 * 32 * 64;  // g N h
  CHECK(plan.sent(0) == 3 * boundary);
  CHECK(plan.sent(1) == 3 * 2 * boundary);
  CHECK(plan.sent(2) == 3 * 2 * boundary);
  CHECK(plan.sent(3) == 3 * boundary);
}

TEST_CASE("a whole that does not divide is counted in whole bytes per rank: at most n - 1 bytes less per message") {
  Plan plan = plan_of();
  plan.cluster = plain_cluster(3);
  const std::int64_t exact = 2 * 2 * (4 * P) / 3, sent = plan.build("ddp").sent();
  CHECK(sent <= exact);
  CHECK(exact - sent <= 2 * 2 * plan.count(OpCode::AllReduce));
}
