// Reader 2 of a step program: seconds, by one forward pass in program order (max-plus). Exact when no link is shared
// and the ranks of a class are alike; the simulator refines it. Streams order work; operands are the only other
// dependencies; a stream may allocate again only when what its pool freed earlier is out of use (the gate, which is
// FSDP's rate limiter). Compute beside a collective of its rank that comes earlier in the program goes slower
// (planner/instruction_cost). The host issues kernels one after the other: device work cannot start before it was
// launched.
#pragma once

#include <array>
#include <vector>

#include "planner/comm_model.h"
#include "planner/cost.h"
#include "planner/step_program.h"

namespace gpuplan {

struct StepTime {
  Seconds step;
  Seconds compute;        // busy time of the compute stream of the busiest class, what overlap slows included
  Seconds communication;  // busy time of its gather, reduce, send and receive streams
  Seconds exposed;        // step time that is not compute
  Seconds host;           // what dispatch alone would take
  double flops{};         // of one rank (the mean of the ranks), recompute included

  StepTime& operator+=(const StepTime& o) {
    step += o.step, compute += o.compute, communication += o.communication;
    exposed += o.exposed, host += o.host, flops += o.flops;
    return *this;
  }
};

struct TimedStep;  // planner/timed_program.h

/// Time of one optimizer step of the whole job. `columns` as in build_step_program. `timed`: the program, resolved; it
/// serves every machine.
StepTime forward_pass(const StepProgram& program, const TimedStep& timed, std::span<const CostModel> columns,
                      const CommModel& comm);
StepTime forward_pass(const StepProgram& program, std::span<const CostModel> columns, const CommModel& comm);

}  // namespace gpuplan
