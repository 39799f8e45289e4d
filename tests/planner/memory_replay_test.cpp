// The memory replay on programs written by hand: peak, instant, repeat, pools, spaces; and verify() on broken programs.
#include <doctest/doctest.h>

#include <functional>

#include "base/error.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;
using namespace gpuplan::operand;

namespace {

/// A program of one class, written instruction by instruction.
struct Written {
  StepProgram all;
  Written() {
    all.programs.emplace_back();
    all.num_programs = 1;
    all.classes.push_back({});
    p().buffers.emplace_back();
  }
  RankProgram& p() { return all.programs.front(); }
  std::uint32_t buffer(std::int64_t bytes, Category category = Category::Activations, bool persistent = false,
                       MemorySpace space = MemorySpace::Device) {
    p().buffers.push_back(
        ProgramBuffer{.bytes = {bytes}, .category = category, .space = space, .is_persistent = persistent});
    return std::uint32_t(p().buffers.size() - 1);
  }
  void emit(OpCode op, std::initializer_list<Operand> operands = {}, std::uint32_t turns = 0) {
    Instruction i{.op = op,
                  .num_operands = std::uint16_t(operands.size()),
                  .first_operand = std::uint32_t(p().operands.size()),
                  .turns = turns};
    p().operands.insert(p().operands.end(), operands.begin(), operands.end());
    p().instructions.push_back(i);
  }
  Peak peak() const { return replay(all, all.classes.front()); }
};

constexpr Operand kNew = kWrite | kAllocates, kLast = kRead | kFrees;

}  // namespace

TEST_CASE("usage is a monoid: any bracketing of a stretch of program gives the same net and peak") {
  const Usage a{5, 9}, b{-3, 4}, c{2, 7};
  Usage left = a, right = b, whole = a;
  left.then(b), left.then(c);        // (a b) c
  right.then(c), whole.then(right);  // a (b c)
  CHECK(left.net == 4);
  CHECK(left.peak == 9);  // max(9, 5 + 4, 5 - 3 + 7)
  CHECK(whole.net == left.net);
  CHECK(whole.peak == left.peak);
}

TEST_CASE("the peak is the highest moment in program order, not the sum of what was ever allocated") {
  Written w;
  const auto kept = w.buffer(100, Category::Weights, true), a = w.buffer(30), b = w.buffer(20), c = w.buffer(25);
  w.emit(OpCode::Cast, {kept | kRead, a | kNew});  // 130
  w.emit(OpCode::Cast, {a | kLast, b | kNew});     // 150: input and output of one instruction live together
  w.emit(OpCode::Cast, {b | kLast, c | kNew});     // 120 - 30 + … = 145
  w.emit(OpCode::Release, {c | kLast});
  CHECK_NOTHROW(verify(w.all));
  const Peak peak = w.peak();
  CHECK(peak.tensors == Bytes{150});
  CHECK(peak.resident == Bytes{100});
  CHECK(peak.instruction == 1);
}

TEST_CASE("a repeat counts once in memory, whatever its turns, and replays in one pass") {
  for (const std::uint32_t turns : {1u, 2u, 1000u}) {
    Written w;
    const auto kept = w.buffer(100, Category::Weights, true), a = w.buffer(30);
    w.emit(OpCode::Repeat, {}, turns);
    w.emit(OpCode::Cast, {kept | kRead, a | kNew});
    w.emit(OpCode::Release, {a | kLast});
    w.emit(OpCode::EndRepeat, {}, turns);
    CHECK_NOTHROW(verify(w.all));
    CHECK(w.peak().tensors == Bytes{130});
    CHECK(replay_detailed(w.all, w.all.classes.front(), 1).tensors == Bytes{130});
  }
}

TEST_CASE("the pools' sum counts each class of tensors at its own peak, so it is at least the peak of the tensors") {
  Written w;
  const auto kept = w.buffer(100, Category::Weights, true), a = w.buffer(30), g = w.buffer(40, Category::Gradients);
  w.emit(OpCode::Cast, {kept | kRead, a | kNew});
  w.emit(OpCode::Release, {a | kLast});  // activations and gradients never live together …
  w.emit(OpCode::Cast, {kept | kRead, g | kNew});
  w.emit(OpCode::Release, {g | kLast});
  CHECK(w.peak().tensors == Bytes{140});
  CHECK(w.peak().pools == Bytes{170});  // … but their segments do: 100 + 30 + 40
  CHECK(w.peak().joined_pools ==
        Bytes{140});  // unless what comes later fits into the earlier ones: max(100 + 30, 100 + 40)
}

TEST_CASE("what is allocated while an activation lives has segments of its own") {
  Written w;
  const auto kept = w.buffer(100, Category::Weights, true), a = w.buffer(30), b = w.buffer(10),
             g = w.buffer(40, Category::Gradients), step = w.buffer(25, Category::Optimizer);
  w.emit(OpCode::Cast, {kept | kRead, a | kNew});
  w.emit(OpCode::Cast, {a | kRead, b | kNew});
  w.emit(OpCode::Release, {a | kLast});
  w.emit(OpCode::Cast, {b | kRead, g | kNew});
  w.emit(OpCode::Release, {b | kLast});  // the last activation
  w.emit(OpCode::OptimizerStep, {g | kRead, kept | kWrite, step | kNew});
  w.emit(OpCode::Release, {g | kLast, step | kLast});
  CHECK(w.peak().tensors == Bytes{165});       // at the step: 100 + 40 + 25
  CHECK(w.peak().pools == Bytes{205});         // 100 + 25, 40, 30 + 10
  CHECK(w.peak().joined_pools == Bytes{180});  // the gradient beside the activations, the temporary in their place
}

TEST_CASE("managed, host and NVMe bytes are counted apart from the device") {
  Written w;
  const auto kept = w.buffer(100, Category::Weights, true);
  w.buffer(7, Category::Optimizer, true, MemorySpace::Managed);
  w.buffer(11, Category::Optimizer, true, MemorySpace::Nvme);
  const auto host = w.buffer(13, Category::Gradients, false, MemorySpace::Host);
  w.emit(OpCode::CopyOut, {kept | kRead, host | kNew});
  w.emit(OpCode::Release, {host | kLast});
  const Peak peak = w.peak();
  CHECK(peak.tensors == Bytes{100});
  CHECK(peak.managed == Bytes{7});
  CHECK(peak.nvme == Bytes{11});
  CHECK(peak.host == Bytes{13});
}

TEST_CASE("verify refuses a program in which a free is missing, doubled, or comes before the last use") {
  const auto corrupt = [](const std::function<void(Plan&)>& damage) {
    Plan plan;
    plan.build("fsdp");
    REQUIRE_NOTHROW(verify(plan.program));
    damage(plan);
    CHECK_THROWS_AS(verify(plan.program), BugError);
  };
  const auto find_operand = [](Plan& plan, BufferRole role, Operand flag) -> Operand& {
    RankProgram& p = plan.program.programs.front();
    return *std::find_if(p.operands.begin(), p.operands.end(),
                         [&](Operand o) { return (o & flag) && p.buffers[id(o)].role == role; });
  };
  corrupt([&](Plan& plan) { find_operand(plan, BufferRole::Gathered, kFrees) &= ~kFrees; });  // never freed
  corrupt([&](Plan& plan) { find_operand(plan, BufferRole::Gradient, kFrees) &= ~kFrees; });
  corrupt(
      [&](Plan& plan) { find_operand(plan, BufferRole::Gathered, kAllocates) |= kFrees; });  // freed before its call
  corrupt([&](Plan& plan) {
    find_operand(plan, BufferRole::FullGradient, kAllocates) &= ~kAllocates;
  });  // used without allocation
}

TEST_CASE("verify refuses a gather after its use, a step on a partial gradient, a reduce that never happened") {
  const auto erase_first = [](Plan& plan, OpCode op) {
    auto& list = plan.program.programs.front().instructions;
    list.erase(std::find_if(list.begin(), list.end(), [op](const Instruction& i) { return i.op == op; }));
  };
  Plan late;
  late.build("fsdp");
  auto& list = late.program.programs.front().instructions;
  const auto gather =
      std::find_if(list.begin(), list.end(), [](const Instruction& i) { return i.op == OpCode::AllGather; });
  const auto call = std::find_if(gather, list.end(), [](const Instruction& i) { return i.op == OpCode::Call; });
  std::iter_swap(gather, call);
  CHECK_THROWS_AS(verify(late.program), BugError);
  struct Missing {
    const char* name;
    OpCode op;
  };
  for (const Missing& m : {Missing{"ddp", OpCode::AllReduce},
                           {"hsdp", OpCode::AllReduce},
                           {"fsdp", OpCode::ReduceScatter},
                           {"zero3", OpCode::ReduceScatter},
                           {"zero1", OpCode::AllReduce},
                           {"zero2", OpCode::AllReduce},
                           {"fsdp", OpCode::AllGather},
                           {"zero1", OpCode::AllGather},
                           {"zero2", OpCode::AllGather}}) {
    INFO(m.name << ", without " << to_string(m.op));
    Plan plan;
    plan.build(m.name);
    erase_first(plan, m.op);
    CHECK_THROWS_AS(verify(plan.program), BugError);
  }
}

TEST_CASE("verify refuses a send of a pipeline without its receive") {
  Plan plan;
  plan.build("mp");
  auto& list = plan.program.programs.front().instructions;
  const auto send = std::find_if(list.begin(), list.end(), [](const Instruction& i) { return i.op == OpCode::Send; });
  REQUIRE(send != list.end());
  list.erase(send);
  CHECK_THROWS_AS(verify(plan.program), BugError);
}

TEST_CASE("verify refuses a block whose backward reads a local after its free") {
  Plan plan;
  plan.build("single");
  for (Block& block : plan.program.made->blocks) {
    if (!block.runs_backward) continue;
    const auto free = std::find_if(block.events.begin(), block.events.end(),
                                   [](const BlockEvent& e) { return e.kind == BlockEvent::Free; });
    REQUIRE(free != block.events.end());
    std::rotate(block.events.begin(), free, free + 1);  // freed at once
    break;
  }
  CHECK_THROWS_AS(verify(plan.program), BugError);
}
