// The one reading of programs: repeats turn by turn, phases and micro-batches of instructions, and what waits for what.
#include "planner/program_walk.h"

#include <doctest/doctest.h>

#include <set>

#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;
using namespace gpuplan::operand;

namespace {

const char* const kStrategies[] = {"single", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp-grad-op", "hsdp", "mp"};

/// The same program with every turn of its repeats as instructions of its own.
StepProgram every_turn(const StepProgram& folded) {
  StepProgram out = folded;
  for (RankProgram& p : out.programs) {
    std::vector<Instruction> all;
    walk(p, [&](const ProgramCursor& at) {
      all.push_back(at.instruction());
      all.back().micro_batch = at.micro_batch();
    });
    p.instructions = all;
  }
  return out;
}

/// Seconds, for a rule of waiting.
struct Time {
  int seconds = 0;
  void join(Time other) { seconds = std::max(seconds, other.seconds); }
};

/// Instructions of the compute and the gather stream on buffers 1, 2, ….
struct HandWritten {
  RankProgram p;
  explicit HandWritten(std::size_t num_buffers) { p.buffers.resize(num_buffers + 1); }
  Instruction on(StreamId stream, std::initializer_list<Operand> operands, OpCode op = OpCode::Cast) {
    const auto first = std::uint32_t(p.operands.size());
    p.operands.insert(p.operands.end(), operands.begin(), operands.end());
    return Instruction{
        .op = op, .stream = stream, .num_operands = std::uint16_t(operands.size()), .first_operand = first};
  }
};

}  // namespace

TEST_CASE("a cursor runs each turn of a repeat and counts its micro-batches") {
  RankProgram p;
  p.instructions = {Instruction{.op = OpCode::Cast},
                    Instruction{.op = OpCode::Repeat, .turns = 3},
                    Instruction{.op = OpCode::Cast, .micro_batch = 1},
                    Instruction{.op = OpCode::Release, .micro_batch = 1},
                    Instruction{.op = OpCode::EndRepeat},
                    Instruction{.op = OpCode::Cast, .micro_batch = 4}};
  std::vector<std::uint32_t> indices, micro_batches;
  walk(p, [&](const ProgramCursor& at) {
    indices.push_back(at.index());
    micro_batches.push_back(at.micro_batch());
  });
  CHECK(indices == std::vector<std::uint32_t>{0, 2, 3, 2, 3, 2, 3, 5});
  CHECK(micro_batches == std::vector<std::uint32_t>{0, 1, 1, 2, 2, 3, 3, 4});
}

TEST_CASE("a reader that accounts for the other turns of a repeat sees one turn, and is told how many are left") {
  struct OneTurn {
    std::uint32_t begun = 0, skipped = 0;
    void begin_repeat(const Instruction&) { ++begun; }
    std::uint32_t skips(const Instruction&, std::uint32_t left) {
      skipped += left;
      return left;
    }
  } reader;
  RankProgram p;
  p.instructions = {Instruction{.op = OpCode::Repeat, .turns = 5}, Instruction{.op = OpCode::Cast},
                    Instruction{.op = OpCode::EndRepeat}, Instruction{.op = OpCode::Release}};
  int seen = 0;
  walk(
      p, [&](const ProgramCursor&) { ++seen; }, reader);
  CHECK(seen == 2);
  CHECK(reader.begun == 1);
  CHECK(reader.skipped == 4);
}

TEST_CASE("a repeat equals its turns written out: in bytes, in bytes sent and in seconds, in every strategy") {
  for (const char* name : kStrategies)
    for (const bool checkpoints : {false, true}) {
      INFO(name << (checkpoints ? ", checkpointed" : ""));
      Plan plan;
      plan.recipe.grad_accum = 9;
      if (checkpoints) plan.recipe.checkpointing = Checkpointing::Full;
      const Profile profile = default_profile("a100-sxm-80gb");
      const std::vector<CostModel> columns{make_cost_model(plan.cluster.gpus.front(), profile, {})};
      plan.build(name, columns);
      const StepProgram written = every_turn(plan.program);
      const CommModel comm = make_comm_model(plan.cluster, profile, plan.strategy.mesh);
      CHECK(forward_pass(written, columns, comm).step.value ==
            doctest::Approx(forward_pass(plan.program, columns, comm).step.value).epsilon(1e-9));
      CHECK_NOTHROW(verify(written));
      for (const RankClass& c : plan.program.classes) {
        const Peak folded = replay(plan.program, c), whole = replay(written, c);
        CHECK(folded.tensors == whole.tensors);
        CHECK(folded.pools == whole.pools);
        CHECK(folded.host == whole.host);
        CHECK(folded.instant == whole.instant);
        CHECK(bytes_sent(plan.program, c) == bytes_sent(written, c));
      }
    }
}

TEST_CASE("every call says its phase and its micro-batch, and every micro-batch has the same calls") {
  for (const char* name : kStrategies) {
    INFO(name);
    Plan plan;
    plan.recipe.grad_accum = 5;
    plan.recipe.checkpointing = Checkpointing::Full;
    plan.build(name);
    for (const RankClass& c : plan.program.classes) {
      const RankProgram& p = plan.program.programs[c.program];
      std::vector<std::multiset<std::pair<Phase, std::uint16_t>>> calls(5);
      bool has_stepped = false;
      walk(p, [&](const ProgramCursor& at) {
        const Instruction& i = at.instruction();
        has_stepped |= i.phase == Phase::OptimizerStep;
        CHECK(has_stepped == (i.phase == Phase::OptimizerStep));  // the last phase
        if (i.op == OpCode::OptimizerStep) CHECK(i.phase == Phase::OptimizerStep);
        if (i.op != OpCode::Call) return;
        calls.at(at.micro_batch()).insert({i.phase, i.unit});
        CHECK(plan.program.blocks[i.block].runs_backward == (i.phase == Phase::Backward));
        CHECK((i.unit > plan.spec.num_hidden_layers) == (i.phase == Phase::Head));
      });
      for (const auto& of_one : calls) CHECK(of_one == calls.front());
      CHECK(calls.front().count({Phase::Recompute, std::uint16_t(2)}) ==
            (p.first_unit <= 2 && p.last_unit >= 2 ? 1 : 0));
    }
  }
}

TEST_CASE("an optimizer step in backward belongs to the step, and what follows it to the backward again") {
  Plan plan;
  plan.recipe.optimizer_in_backward = true;
  plan.build("single");
  bool steps_before_backward = false, has_stepped = false;
  walk(plan.of_rank(), [&](const ProgramCursor& at) {
    const Instruction& i = at.instruction();
    if (i.op == OpCode::OptimizerStep) CHECK(i.phase == Phase::OptimizerStep);
    has_stepped |= i.op == OpCode::OptimizerStep;
    steps_before_backward |= has_stepped && i.phase == Phase::Backward;
  });
  CHECK(steps_before_backward);
}

TEST_CASE("reads wait for the last write, writes for the last write and the reads since, streams for themselves") {
  HandWritten w(2);
  WaitingRule<Time> rule;
  rule.reset(w.p);
  const auto run = [&](const Instruction& i, int takes) {
    const int start = rule.begin(i, w.p.operands_of(i)).seconds;
    rule.end(i, w.p.operands_of(i), {start + takes});
    return start;
  };
  CHECK(run(w.on(StreamId::Gather, {1 | kWrite}), 5) == 0);
  CHECK(run(w.on(StreamId::Compute, {2 | kWrite}), 1) == 0);             // nothing in common
  CHECK(run(w.on(StreamId::Compute, {1 | kRead}), 2) == 5);              // read after write
  CHECK(run(w.on(StreamId::Send, {1 | kRead}), 4) == 5);                 // reads do not wait for each other
  CHECK(run(w.on(StreamId::Gather, {1 | kWrite}), 1) == 9);              // write after both reads
  CHECK(run(w.on(StreamId::Compute, {2 | kRead | kWrite}), 1) == 7);     // the stream's own order
  CHECK(run(w.on(StreamId::Gather, {2 | kRead, 1 | kWrite}), 1) == 10);  // the stream again, 2 has been there since 8
}

TEST_CASE("an allocation waits for the users of what its pool freed; other pools and what allocates nothing do not") {
  HandWritten w(3);
  w.p.buffers[1].home = w.p.buffers[2].home = StreamId::Gather;
  WaitingRule<Time> rule;
  rule.reset(w.p);
  const auto run = [&](const Instruction& i, int takes) {
    const int start = rule.begin(i, w.p.operands_of(i)).seconds;
    rule.end(i, w.p.operands_of(i), {start + takes});
    return start;
  };
  run(w.on(StreamId::Gather, {1 | kWrite | kAllocates}), 1);
  run(w.on(StreamId::Compute, {1 | kRead}), 7);  // 1 to 8
  rule.release(w.p.operands_of(w.on(StreamId::Compute, {1 | kFrees}, OpCode::Release)));
  CHECK(run(w.on(StreamId::Gather, {}), 1) == 1);                         // nothing allocated
  CHECK(run(w.on(StreamId::Gather, {2 | kWrite | kAllocates}), 1) == 8);  // the place of 1
  CHECK(run(w.on(StreamId::Reduce, {3 | kWrite | kAllocates}), 1) == 0);  // another pool
}

TEST_CASE("operands bind the slots of the called block by name") {
  CHECK(slot(7 | kRead | kX) == kSlotX);
  CHECK(slot(7 | kWrite | kDx) == kSlotDx);
  CHECK(slot(7 | kRead | kDMemory) == kSlotDMemory);
  CHECK(slot(7 | kRead) == kNoLocal);
  CHECK(slot(7 | kRead | kWeight) == kNoLocal);
  CHECK(is_callees(7 | kRead | kDy));
  CHECK_FALSE(is_callees(7 | kRead | kMemory));  // the program's
  CHECK_FALSE(is_callees(7 | kRead));
  CHECK(id(kIdMask | kWrite | kDx) == kIdMask);
}
