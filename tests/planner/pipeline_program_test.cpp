// Programs of pipelines: what stages hold in flight, what they send each other, and how long the step takes.
#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "planner/comm_model.h"
#include "planner/pipeline_schedule.h"
#include "planner/plan_builder.h"
#include "planner/program_walk.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// 8 layers of the tiny model in `stages`, whose messages take no time.
struct Pipeline : Plan {
  Pipeline(std::int64_t stages, std::int64_t chunks, std::int64_t micro_batches, std::int64_t layers = 8) {
    spec = tiny_llama(layers);
    framework = find_framework("megatron");
    framework.pipeline.schedules.push_back("gpipe");
    recipe.framework = std::string("megatron");
    recipe.grad_accum = micro_batches;
    cluster = plain_cluster(stages);
    options.pp = stages, options.virtual_stages = chunks;
  }
};

/// Seconds of a step where a layer takes 1 forward and 2 backward, ends and messages nothing.
double step_of(Pipeline plan) {
  CostModel device;
  device.gemm = device.gemm_fp32 = device.batched_gemm = device.flash = device.cudnn = {1e30};
  device.memory = {1e30};
  plan.build("single", {device});
  StepProgram& program = plan.program;
  for (std::size_t k = 0; k < program.blocks.size(); ++k) program.costs[0][k] = {};
  for (std::size_t p = 0; p < program.num_programs; ++p)
    for (const Instruction& i : program.programs[p].instructions)
      if (i.op == OpCode::Call && i.unit > 0 && i.unit <= plan.spec.num_hidden_layers)
        program.costs[0][i.block].device = {program.blocks[i.block].runs_backward ? 2.0 : 1.0};
  CommModel comm;
  comm.host_link = comm.cpu_optimizer = comm.nvme = {1e30};
  comm.axes[std::size_t(Axis::Pp)] = {{{0}, {1e30}, {1e30}, ""}, plan.strategy.mesh.num_stages(), false};
  return forward_pass(program, std::vector<CostModel>{device}, comm).step.value;
}

}  // namespace

TEST_CASE("pipelines of every schedule hold the invariants of programs") {
  for (const std::int64_t chunks : {1, 2})
    for (const char* strategy : {"single", "ddp", "zero1"})
      for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full, Checkpointing::Selective})
        for (const Method method : {Method::Full, Method::Lora})
          for (const std::int64_t tp : {1, 2}) {
            const bool is_alone = std::string_view(strategy) == "single";
            Pipeline plan(2, chunks, 4);
            plan.cluster = plain_cluster((is_alone ? 2 : 4) * tp);
            plan.options.tp = tp, plan.options.splits_sequence = tp > 1;
            plan.recipe.checkpointing = checkpointing;
            plan.recipe.method = method;
            plan.build(strategy);
            INFO(plan.strategy.title() << ", " << chunks << " chunks, " << int(checkpointing) << ", " << int(method));
            CHECK(why_not_applicable(plan.strategy, plan.cluster, plan.job().recipe(), plan.spec) == "");
            verify(plan.program);
          }
}

TEST_CASE("a stage sends each micro-batch on, and its gradient back") {
  Pipeline plan(4, 1, 8);
  plan.build("single");
  const auto messages = [&](std::size_t k, OpCode op, Direction direction) {
    std::int64_t count = 0;
    for (const Instruction& i : plan.of_rank(k).instructions) count += i.op == op && i.direction == direction;
    return count;
  };
  for (std::size_t k = 0; k < 4; ++k) {
    CHECK(messages(k, OpCode::Send, Direction::Forward) == (k < 3 ? 8 : 0));
    CHECK(messages(k, OpCode::Send, Direction::Backward) == (k > 0 ? 8 : 0));
  }
  // with two chunks the last stage sends on to the first, and gets its gradient back
  Pipeline interleaved(4, 2, 8);
  interleaved.build("single");
  plan = interleaved;
  CHECK(messages(3, OpCode::Send, Direction::Forward) == 8);
  CHECK(messages(0, OpCode::Send, Direction::Backward) == 8);
  CHECK(messages(0, OpCode::Send, Direction::Forward) == 16);
}

TEST_CASE("ranks that share layers send a part each of what all of them have, and gather it, where the trainer does") {
  const auto bytes = [](bool sends_parts, bool splits_sequence, OpCode op, Axis axis) {
    Pipeline plan(4, 1, 8);
    plan.cluster = plain_cluster(8);
    plan.options.tp = 2, plan.options.splits_sequence = splits_sequence;
    plan.framework.pipeline.sends_parts = sends_parts;
    plan.build("single");
    verify(plan.program);
    Bytes out;
    for (const Instruction& i : plan.of_rank(1).instructions)
      if (i.op == op && i.axis == axis && (op != OpCode::AllGather || i.stream == StreamId::Recv)) out += i.work;
    return out;
  };
  const Bytes whole = bytes(false, false, OpCode::Send, Axis::Pp);
  CHECK(2 * bytes(true, false, OpCode::Send, Axis::Pp) == whole);
  CHECK(2 * bytes(true, false, OpCode::Recv, Axis::Pp) == whole);
  CHECK(bytes(true, false, OpCode::AllGather, Axis::Tp) == whole);
  CHECK(bytes(false, false, OpCode::AllGather, Axis::Tp) == Bytes{});
  // of a divided sequence each has its part alone
  CHECK(2 * bytes(true, true, OpCode::Send, Axis::Pp) == whole);
  CHECK(bytes(true, true, OpCode::AllGather, Axis::Tp) == Bytes{});
}

TEST_CASE("what layers keep is held as often as chunks are in flight") {
  // 4 stages of 2 layers: 4, 3, 2 and 1 micro-batches of them wait; GPipe: all 8
  const auto held = [](Pipeline plan, std::size_t k) {
    plan.build("single");
    std::int64_t alive = 0, most = 0;
    walk(plan.of_rank(k), [&](const ProgramCursor& at) {
      each_device_change(plan.program, plan.of_rank(k), at, [&](const DeviceChange& c) {
        if (c.local && std::string_view(c.local->name) == "log-sum-exp") most = std::max(most, alive += c.sign);
      });
    });
    return most;
  };
  for (std::size_t k = 0; k < 4; ++k) CHECK(held(Pipeline(4, 1, 8), k) == 2 * std::int64_t(4 - k));
  Pipeline gpipe(4, 1, 8);
  gpipe.options.schedule = Schedule::GPipe;
  CHECK(held(gpipe, 0) == 2 * 8);
  // 2 chunks of 1 layer: 2 (4 - 1) + (2 - 1) 4 + 1 = 11 on the first stage, 5 on the last
  CHECK(held(Pipeline(4, 2, 8), 0) == 11);
  CHECK(held(Pipeline(4, 2, 8), 3) == 5);
}

TEST_CASE("the bubble of a step is (p - 1) / m, and (p - 1) / (v m) where v chunks are interleaved") {
  // ideal: m micro-batches x L / p layers x (1 + 2)
  CHECK(step_of(Pipeline(4, 1, 8)) == doctest::Approx(8 * 2 * 3 * (1 + 3.0 / 8)).epsilon(1e-9));
  CHECK(step_of(Pipeline(2, 1, 6)) == doctest::Approx(6 * 4 * 3 * (1 + 1.0 / 6)).epsilon(1e-9));
  CHECK(step_of(Pipeline(4, 2, 8)) == doctest::Approx(8 * 2 * 3 * (1 + 3.0 / 16)).epsilon(1e-9));
  CHECK(step_of(Pipeline(4, 4, 8, 16)) == doctest::Approx(8 * 4 * 3 * (1 + 3.0 / 32)).epsilon(1e-9));
  Pipeline gpipe(4, 1, 8);
  gpipe.options.schedule = Schedule::GPipe;
  CHECK(step_of(gpipe) == doctest::Approx(8 * 2 * 3 * (1 + 3.0 / 8)).epsilon(1e-9));
}

TEST_CASE("stages of unlike numbers of layers: the longest one works all the time") {
  Pipeline plan(2, 1, 4);
  plan.options.stage_layers = {2, 6};
  CHECK(step_of(plan) == doctest::Approx(2 + 4 * 6 * 3 + 2 * 2).epsilon(1e-9));
  plan.build("single");
  CHECK(plan.strategy.title() == "single pp2·dp1");
  const auto bounds = [](StageLayers layers, std::int64_t chunks, std::int64_t all) {
    Strategy s{.mesh = Mesh{{Axis::Pp, std::ssize(layers)}}, .chunks = chunks, .stage_layers = std::move(layers)};
    return pipeline_bounds(all, s, false);
  };
  using Bounds = std::vector<std::uint16_t>;
  CHECK(bounds({6, 0, 0, 5}, 1, 27) == Bounds{0, 7, 15, 23, 29});
  CHECK(bounds({2, 4, 2}, 2, 8) == Bounds{0, 2, 4, 5, 6, 8, 10});  // Megatron: a stage's layers, in as many chunks
  CHECK(bounds({6, 0, 0, 5}, 1, 28) == Bounds{});                  // 17 layers of two stages
  CHECK(bounds({4, 4}, 1, 9) == Bounds{});
  CHECK(bounds({4, 4, 0}, 1, 8) == Bounds{});  // none is left
  CHECK(bounds({3, 5}, 2, 8) == Bounds{});
  CHECK(bounds({-1, 9}, 1, 8) == Bounds{});  // as a file may have it
  CHECK(parse_stage_layers("6,8, 8,5", "--stage-layers") == StageLayers{6, 8, 8, 5});
  CHECK_THROWS_WITH_AS(parse_stage_layers("6,x", "--stage-layers"), doctest::Contains("--stage-layers"), InputError);
}

TEST_CASE("a pipeline that cannot be laid says why") {
  const auto why = [](Pipeline plan, const char* strategy = "single") {
    const Strategy s = make_strategy(strategy, plan.cluster, plan.options);
    return why_not_applicable(s, plan.cluster, plan.job().recipe(), plan.spec);
  };
  CHECK(why(Pipeline(4, 1, 8)) == "");
  CHECK(why(Pipeline(3, 1, 8)) ==
        "8 layers cannot be divided evenly into 3 x 1 parts: --stage-layers says how many each stage has");
  Pipeline unlike(2, 1, 8);
  unlike.options.stage_layers = {3, 4};
  CHECK(why(unlike) == "8 layers cannot be divided into 2 stages of 3,4 layers");
  CHECK(why(Pipeline(4, 2, 6)) == "interleaved takes micro-batches in groups of 4: 6 of --grad-accum is no multiple");
  Pipeline other(4, 1, 8);
  other.framework = find_framework("hf-trainer");
  other.recipe.framework = std::string("hf-trainer");
  CHECK(why(other) == "hf-trainer has no pipeline schedules that are planned");
}

TEST_CASE("7B in 4 stages of 8 chunks: the last stage holds what Megatron-LM's functional test measured") {
  // Source: NVIDIA/Megatron-LM tests/functional_tests/test_cases/gpt/gpt3_7b_tp1_pp4_memory_speed @d98e8a64d (H100):
  // mem-max-allocated 56.5507 GiB of the last rank; micro-batch 1 of 8,192 tokens, 4 of them, 8 GPUs
  Pipeline plan(4, 8, 4, 32);
  plan.spec = load_model("gpt2-xl").spec;
  ModelSpec& m = plan.spec;
  m.hidden_size = 4096, m.num_attention_heads = 32, m.num_key_value_heads = 8, m.head_dim = 128;
  m.intermediate_size = 4 * 4096, m.num_hidden_layers = 32, m.vocab_size = 131072;
  m.learned_positions = m.max_position_embeddings = 8192;
  m.tie_word_embeddings = false;
  plan.cluster = plain_cluster(8);
  plan.recipe.seq_len = 8192;
  plan.recipe.attention = AttentionKernel::Cudnn;
  plan.recipe.loss = LossKernel::InPlace;
  plan.build("zero1");
  verify(plan.program);
  // 29 chunks of a layer are in flight there: 29 x 8192 x 4096 x (34 - 3) bytes = 30.2 GB
  for (const double gib : {56.5507, 56.3348})  // H100, A100
    CHECK(double(plan.peak(3).tensors.count) == doctest::Approx(gib * 0x1p30).epsilon(0.02));
}
