#include "run/step_trace.h"

#include <doctest/doctest.h>

#include "planner/memory.h"
#include "run/address_plan.h"
#include "run/native_fixture.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

std::vector<NativeCase> cases_with_repeats() {
  std::vector<NativeCase> out;
  for (const NativeCase& plain : every_case())
    for (const std::int64_t accumulation : {1, 2, 5})  // 5: the middle ones are a repeat
      for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full}) {
        NativeCase& c = out.emplace_back(plain);
        c.grad_accum = accumulation;
        c.checkpointing = checkpointing;
      }
  return out;
}

}  // namespace

TEST_CASE(
    "step trace: state and lifetimes together peak where the memory replay says, to the byte, in every strategy and "
    "method") {
  for (const NativeCase& c : cases_with_repeats()) {
    CAPTURE(c.name());
    const NativeJob job(request_of(c), strategy_of(c));
    for (const RankClass& k : job.program().classes) {
      const RankProgram& p = job.program().programs[k.program];
      const Peak predicted = replay(job.program(), k);
      Bytes state;
      for (const ProgramBuffer& b : p.buffers)
        if (b.is_persistent) state += b.bytes;
      CHECK(state == predicted.resident);
      CHECK(state + peak_of(trace_step(job.program(), p).lifetimes) == predicted.tensors);
    }
  }
}

TEST_CASE("step trace: every lifetime ends, and each micro-batch has as many calls as the first") {
  for (const NativeCase& c : cases_with_repeats()) {
    CAPTURE(c.name());
    const NativeJob job(request_of(c), strategy_of(c));
    for (const RankClass& k : job.program().classes) {
      const RankProgram& p = job.program().programs[k.program];
      const StepTrace trace = trace_step(job.program(), p);
      for (const Lifetime& life : trace.lifetimes) CHECK(life.begin < life.end);
      CHECK(trace.tasks.back().micro_batch == c.grad_accum - 1);
      std::vector<std::int64_t> calls(std::size_t(c.grad_accum));
      for (const StepTask& t : trace.tasks)
        if (p.instructions[t.instruction].op == OpCode::Call) ++calls.at(std::size_t(t.micro_batch));
      CHECK(calls == std::vector<std::int64_t>(calls.size(), calls.front()));
    }
  }
}
