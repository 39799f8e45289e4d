#include "planner/instruction_cost.h"

#include <algorithm>

namespace gpuplan {

bool uses_nvme(const RankProgram& p, const Instruction& i) {
  const auto operands = p.operands_of(i);
  return std::any_of(operands.begin(), operands.end(),
                     [&](Operand o) { return p.buffers[operand::id(o)].space == MemorySpace::Nvme; });
}

Seconds work_of(const StepProgram& all, const RankProgram& p, const Instruction& i, std::size_t column,
                const CostModel& device, const CommModel& comm) {
  switch (i.op) {
    case OpCode::Call: return all.costs[column][i.block].device;
    case OpCode::Cast:
    case OpCode::GradientNorm: return i.work / device.memory_rate();
    case OpCode::OptimizerStep:
      if (i.stream != StreamId::Host) return i.work / device.optimizer_rate();
      return i.work / (uses_nvme(p, i) ? std::min(comm.nvme, comm.cpu_optimizer) : comm.cpu_optimizer);
    default: return {};
  }
}

std::int64_t kernels_of(const StepProgram& all, const Instruction& i, std::size_t column) {
  if (i.op == OpCode::Release || i.op == OpCode::LoadBatch) return 0;
  if (i.op == OpCode::Call) return all.costs[column][i.block].num_kernels;
  return 1 + i.hook_kernels;
}

Seconds host_tail_of(const StepProgram& all, const Instruction& i, std::size_t column, Seconds launching) {
  return i.op == OpCode::Call ? all.costs[column][i.block].host_tail : launching;
}

}  // namespace gpuplan
