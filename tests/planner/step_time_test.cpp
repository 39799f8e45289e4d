// The forward pass against closed forms, with the times of blocks and links set by hand.
#include <doctest/doctest.h>

#include "base/error.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr double kForward = 3e-3, kBackward = 5e-3, kHead = 2e-3;

/// A device on which only blocks cost time, and they what `price` says.
CostModel free_device() {
  CostModel d;
  d.gemm = d.gemm_fp32 = d.batched_gemm = d.flash = {1e30};
  d.memory = {1e30};
  return d;
}

struct Timed : Plan {
  CommModel comm;
  CostModel device = free_device();
  double forward = kForward, backward = kBackward, head = kHead;

  Timed() {
    recipe.precision = Precision::Bf16True;
    for (EngineConvention* e : {&framework.fsdp1, &framework.fsdp2, &framework.zero}) *e = {.prefetch_units = 1};
    framework.distributed.ddp_bucket_bytes = 1;  // a bucket per unit
    comm.host_link = comm.cpu_optimizer = comm.nvme = {1e30};
  }
  StepTime run(const char* name, double bandwidth, double latency = 0) {
    build(name, {device});
    for (const RankProgram& p : program.programs)
      for (const Instruction& i : p.instructions) {
        if (i.op != OpCode::Call) continue;
        const bool is_end = i.unit == 0 || i.unit > spec.num_hidden_layers;
        const double time = i.unit == 0                             ? 0
                            : is_end                                ? head
                            : program.blocks[i.block].runs_backward ? backward
                                                                    : forward;
        BlockCost& cost = program.costs[0][i.block];
        cost.device = {time};
        cost.host_tail = launched_end({}, 0, cost.num_kernels, {time}, device.dispatch);
      }
    for (const Axis axis : {Axis::DpShard, Axis::DpReplicate, Axis::Pp})
      comm.axes[std::size_t(axis)] = {{{latency}, {bandwidth}, {bandwidth}, ""}, strategy.mesh.ways(axis), false};
    return forward_pass(program, std::vector<CostModel>{device}, comm);
  }
  double gather(std::int64_t bytes) const { return comm.gather_time(Axis::DpShard, {bytes}).value; }
};

constexpr double kAlone = 4 * (kForward + kBackward) + kHead;  // four layers and the head
constexpr double kInfinite = 1e30;

}  // namespace

TEST_CASE("one GPU: the sum of its blocks; m micro-batches m times that") {
  Timed t;
  CHECK(t.run("single", kInfinite).step.value == doctest::Approx(kAlone).epsilon(1e-9));
  t.recipe.grad_accum = 7;
  CHECK(t.run("single", kInfinite).step.value == doctest::Approx(7 * kAlone).epsilon(1e-9));
}

TEST_CASE("naive model parallelism: m (sum of all stages + 2 (p - 1) transfers)") {
  Timed t;
  t.recipe.grad_accum = 3;
  const double bandwidth = 1e6, transfer = 1e-4 + 2.0 * 32 * 64 / bandwidth;  // alpha + g N h / B
  CHECK(t.run("mp", bandwidth, 1e-4).step.value == doctest::Approx(3 * (kAlone + 2 * 3 * transfer)).epsilon(1e-9));
}

TEST_CASE("DDP: buckets follow their backward one after the other; what is left after the last backward is exposed") {
  for (const double bandwidth : {1e9, 3e7, 1e7, 1e6}) {
    INFO(bandwidth);
    Timed t;
    const auto reduce = [&](std::int64_t elements) {
      return 2 * 3 * (1e-5 + 2.0 * double(elements) / 4 / bandwidth);
    };  // 16-bit gradients, n = 4
    double compute = 4 * kForward + kHead, link = compute + reduce(kTinyEmbedding + 64);
    for (int layer = 0; layer < 4; ++layer) {
      compute += kBackward;
      link = std::max(link, compute) + reduce(kTinyLayer);
    }
    link += reduce(kTinyEmbedding);  // the embedding's backward takes no time here
    CHECK(t.run("ddp", bandwidth, 1e-5).step.value == doctest::Approx(link).epsilon(1e-9));
  }
}

TEST_CASE("DDP: a backward beside the reduce of the layer above takes (1 - 1 / (1 + sigma)) of that reduce longer") {
  Timed t;
  t.device.overlap_slowdown = 0.25;
  const double bandwidth = 1e8;
  const auto reduce = [&](std::int64_t elements) { return 2 * 3 * 2.0 * double(elements) / 4 / bandwidth; };
  REQUIRE(reduce(kTinyLayer) < kBackward);
  const double lost = (reduce(kTinyEmbedding + 64) + 3 * reduce(kTinyLayer)) * 0.2;  // 0.25 / 1.25
  const StepTime time = t.run("ddp", bandwidth);
  CHECK(time.step.value == doctest::Approx(kAlone + lost + reduce(kTinyLayer) + reduce(kTinyEmbedding)).epsilon(1e-9));
  CHECK(time.compute.value == doctest::Approx(kAlone + lost).epsilon(1e-9));
}

TEST_CASE("an optimizer step beside the gather of what was stepped before is slowed as a backward is") {
  // four GPUs, a quarter of the optimizer each: the steps of the units run one after the other, each but the first
  // beside the gather of the unit before, which is the longer of the two
  const auto step = [](double slowdown) {
    Timed t;
    t.device.overlap_slowdown = slowdown;
    t.device.memory = {1e9};
    for (double* time : {&t.forward, &t.backward, &t.head}) *time = 0;
    return t.run("zero1", 1e6).compute.value;
  };
  const double alone = step(0);
  REQUIRE(alone > 0);
  CHECK(step(0.25) > 1.1 * alone);
  CHECK(step(0.25) <= 1.25 * alone * (1 + 1e-9));
}

TEST_CASE("a step bound by communication is not slowed by it: compute beside it has time to spare") {
  const auto step = [](double slowdown) {
    Timed t;
    t.device.overlap_slowdown = slowdown;
    t.recipe.grad_accum = 4;
    return t.run("fsdp", 1e6).step.value;
  };
  CHECK(step(0.25) <=
        step(0) + 4 * 0.25 * (kHead + kForward) * (1 + 1e-9));  // at most what nothing hides: the ends of a micro-batch
}

TEST_CASE("a block whose last kernels are short waits for the host: launches and what is left after the last one") {
  Timed t;
  t.device.dispatch = {1e-5};
  t.build("single", {t.device});
  for (const BlockCost& cost : t.program.costs[0])  // work takes nothing here: the launches alone
    CHECK(cost.host_tail.value == doctest::Approx(double(cost.num_kernels) * 1e-5));
}

TEST_CASE("FSDP bound by compute: first gather + sum of max(t, next gather) + the last reduces") {
  Timed t;
  const double bandwidth = 1e8;
  t.options.fsdp_version = 1;
  const double step = t.run("fsdp", bandwidth).step.value;
  const double layer = t.gather(2 * kTinyLayer), embedding = t.gather(2 * kTinyEmbedding);
  REQUIRE(layer < kForward);
  // the embedding's forward takes no time, so the first layer's gather is exposed too; at the end two reduces, first
  // layer and embedding
  CHECK(step == doctest::Approx(embedding + layer + kAlone + layer + embedding).epsilon(1e-9));
}

TEST_CASE("FSDP bound by its links: the sum of gathers and of the reductions of the adapters of four layers") {
  Timed t;
  t.recipe.method = Method::Lora;
  t.recipe.lora.targets = {"q_proj"};
  t.recipe.lora.adapter_dtype = Dtype::BF16;
  t.forward = t.backward = t.head = 0;
  t.options.fsdp_version = 1;
  const double step = t.run("fsdp", 1e7).step.value;
  const std::int64_t adapters = 8 * (64 + 64);
  const double frozen = t.gather(2 * (2 * 4 * kTinyLayer + kTinyRoot)), trained = 8 * t.gather(2 * adapters),
               reduce = t.gather(2 * adapters);
  CHECK(step == doctest::Approx(frozen + trained + 4 * reduce).epsilon(1e-9));
}

namespace {

/// Seconds of all gathers of a micro-batch, one after the other.
double all_gathers(const Timed& t) {
  double sum = 0;
  for (const Instruction& i : t.of_rank().instructions)
    if (i.op == OpCode::AllGather) sum += t.comm.gather_time(i.axis, i.work, i.messages).value;
  return sum;
}

}  // namespace

TEST_CASE(
    "ZeRO-3 waits for what it gathers ahead, so no gather is hidden; without the wait only the first is exposed") {
  Timed t;
  t.recipe.method = Method::Lora;
  t.recipe.lora.targets = {"q_proj"};
  const double bandwidth = 1e8;
  const double hidden = t.run("zero3", bandwidth).step.value, gathers = all_gathers(t);
  REQUIRE(gathers < 8 * kForward);
  CHECK(hidden < kAlone + 0.5 * gathers);
  t.framework.zero.waits_for_prefetch = true;
  CHECK(t.run("zero3", bandwidth).step.value >= kAlone + gathers * (1 - 1e-9));
}

TEST_CASE("adapters as FSDP units: a message for each matrix, and the rate limiter keeps gathers behind compute") {
  Timed t;
  t.options.fsdp_version = 1;
  t.recipe.method = Method::Lora;
  t.recipe.lora.targets = {"q_proj", "v_proj"};
  t.framework.fsdp1.wraps_adapters = t.framework.fsdp1.waits_for_prefetch = true;
  const double step = t.run("fsdp", 1e8, 1e-5).step.value;
  CHECK(step >= kAlone + all_gathers(t) * (1 - 1e-9));
  int gathers_of_adapters = 0;
  for (const Instruction& i : t.of_rank().instructions)
    if (i.op == OpCode::AllGather && i.messages == 4) ++gathers_of_adapters;  // two linears, A and B each
  CHECK(gathers_of_adapters == 8);                                            // four layers, forward and backward
  t.recipe.method = Method::Full;                                             // all of a layer is one unit again
  const double full = t.run("fsdp", 1e8).step.value;
  CHECK(full < kAlone + 0.5 * all_gathers(t));
}

TEST_CASE("the host launches kernels one after the other: no step is shorter than all of them") {
  Timed t;
  t.forward = t.backward = t.head = 0;
  t.device.dispatch = {1e-5};
  const StepTime time = t.run("single", kInfinite);
  std::int64_t kernels = 0;
  for (const Instruction& i : t.of_rank().instructions)
    kernels += i.op == OpCode::Call                                   ? t.program.costs[0][i.block].num_kernels
               : i.op == OpCode::Release || i.op == OpCode::LoadBatch ? 0
                                                                      : 1;
  CHECK(time.host.value == doctest::Approx(double(kernels) * 1e-5));
  CHECK(time.step.value == doctest::Approx(double(kernels) * 1e-5));
  t.device.dispatch = {};
  CHECK(t.run("single", kInfinite).step.value < 1e-12);
}

TEST_CASE("a faster link never makes these programs slower, and an infinite one leaves the compute of one GPU") {
  for (const char* name : {"ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp-grad-op", "hsdp"}) {
    double before = 1e300;
    for (const double bandwidth : {1e5, 1e6, 1e7, 3e7, 1e8, 1e9, 1e12}) {
      INFO(name << " at " << bandwidth);
      Timed t;
      const double step = t.run(name, bandwidth).step.value;
      CHECK(step <= before * (1 + 1e-12));
      before = step;
    }
    CHECK(Timed{}.run(name, kInfinite).step.value == doctest::Approx(kAlone).epsilon(1e-9));
  }
}

TEST_CASE("the repeat's shortcut equals turns run one by one: 20 micro-batches cost 15 more than 5") {
  for (const char* name : {"single", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp-grad-op", "hsdp", "mp"})
    for (const double bandwidth : {1e6, 3e7, 1e9}) {
      INFO(name << " at " << bandwidth);
      const auto at = [&](std::int64_t m) {
        Timed t;
        t.recipe.grad_accum = m;
        return t.run(name, bandwidth, 1e-6).step.value;
      };
      const double four = at(4), five = at(5);
      CHECK(at(20) == doctest::Approx(five + 15 * (five - four)).epsilon(1e-6));
    }
}

TEST_CASE("NVMe offload runs at the drive's rate, CPU offload at the host's") {
  const auto step = [](OffloadTarget target) {
    Timed t;
    t.recipe.offload.optimizer = target;
    t.comm.host_link = t.comm.cpu_optimizer = {1e9};
    t.comm.nvme = {1e8};
    return t.run("zero2", kInfinite).step.value;
  };
  CHECK(step(OffloadTarget::Nvme) > step(OffloadTarget::Cpu));
}

TEST_CASE("an op takes the longer of arithmetic and memory, and a kernel's fixed cost") {
  CostModel d;
  d.gemm = {1e12}, d.batched_gemm = {5e11}, d.flash = {2e11}, d.memory = {1e10};
  d.bytes_factor = {2, 1, 0.5}, d.dequant_bytes = 3, d.kernel_overhead = {1e-6};
  d.small_heads = 1;
  LayerOp gemm{.cost = CostClass::Gemm, .m = 128, .n = 64, .k = 256, .flops = 1e9, .traffic = 1e6};
  CHECK(d.op_time(gemm, Software::Eager).value == doctest::Approx(1e-3 + 1e-6));  // 1e9 / 1e12 against 1e6 / 1e10
  gemm.traffic = 1e9;
  CHECK(d.op_time(gemm, Software::Eager).value == doctest::Approx(0.1 + 1e-6));  // bound by memory
  const LayerOp norm{.cost = CostClass::Memory, .traffic = 1e7};
  CHECK(d.op_time(norm, Software::Eager).value == doctest::Approx(2e-3));
  CHECK(d.op_time(norm, Software::Handwritten).value == doctest::Approx(5e-4));
  CHECK(d.op_time({.cost = CostClass::FlashAttention, .flops = 1e8}, Software::Eager).value ==
        doctest::Approx(5e-4 + 1e-6));
  CHECK(d.op_time({.cost = CostClass::BatchedGemm, .flops = 1e8}, Software::Eager).value ==
        doctest::Approx(2e-4 + 1e-6));
  CHECK(d.op_time({.cost = CostClass::Dequantise, .traffic = 1e7}, Software::Handwritten).value ==
        doctest::Approx(3e-3));
}

TEST_CASE("rings: n - 1 steps gather, 2 (n - 1) all-reduce, each of S / n; cut messages pay the latency each") {
  CommModel m;
  m.axes[std::size_t(Axis::DpShard)] = {{{5e-6}, {1e9}, {2e9}, ""}, 4, false};
  m.axes[std::size_t(Axis::Pp)] = {{{5e-6}, {1e9}, {2e9}, ""}, 4, false};
  CHECK(m.gather_time(Axis::DpShard, {4'000'000}).value == doctest::Approx(3 * (5e-6 + 1e-3)));
  CHECK(m.gather_time(Axis::DpShard, {4'000'000}, 6).value == doctest::Approx(6 * 3 * 5e-6 + 3e-3));
  CHECK(m.all_reduce_time(Axis::DpShard, {4'000'000}).value == doctest::Approx(6 * (5e-6 + 0.5e-3)));
  CHECK(m.all_reduce_time(Axis::DpReplicate, {4'000'000}).value == 0);  // one way
  CHECK(m.send_time(Axis::Pp, {1'000'000}).value == doctest::Approx(5e-6 + 1e-3));
}
