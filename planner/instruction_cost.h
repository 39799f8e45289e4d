// What single instructions of a step program cost, apart from collectives: read by the forward pass and by the
// simulator.
#pragma once

#include "planner/comm_model.h"
#include "planner/cost.h"
#include "planner/step_program.h"

namespace gpuplan {

/// Whether an operand lies on NVMe.
bool uses_nvme(const RankProgram& program, const Instruction& instruction);

/// Work of the device (or, on StreamId::Host, of the host) at full speed: calls by the block costs of `column`, casts
/// and optimizer steps by memory traffic. Nothing for what moves data elsewhere.
Seconds work_of(const StepProgram& all, const RankProgram& program, const Instruction& instruction, std::size_t column,
                const CostModel& device, const CommModel& comm);

/// Kernels that the host launches for it, one after the other.
std::int64_t kernels_of(const StepProgram& all, const Instruction& instruction, std::size_t column);

/// From when the host begins to launch them to their end, on a device that waits for nothing else. `launching`: of the
/// host alone.
Seconds host_tail_of(const StepProgram& all, const Instruction& instruction, std::size_t column, Seconds launching);

}  // namespace gpuplan
