#include "sim/activity.h"

#include <array>

namespace gpuplan {
namespace {

using namespace operand;

Activity activity_of_call(const StepProgram& all, const RankProgram& program, const Instruction& i) {
  const Block& block = all.blocks[i.block];
  if (block.runs_backward) return Activity::Backward;
  if (block.by_kind[std::size_t(LocalKind::Logits)].peak > 0) return Activity::Head;
  for (const Operand o : all.operands_of(program, i))  // a recompute names no output
    if ((o & kByCallee) && (o & kWrite)) return Activity::Forward;
  return Activity::Recompute;
}

}  // namespace

Activity activity_of(const StepProgram& all, const RankProgram& program, const Instruction& i) {
  switch (i.op) {
    case OpCode::Call: return activity_of_call(all, program, i);
    case OpCode::AllGather: return Activity::AllGather;
    case OpCode::ReduceScatter: return Activity::ReduceScatter;
    case OpCode::AllReduce: return Activity::AllReduce;
    case OpCode::Send:
    case OpCode::Recv: return Activity::SendRecv;
    case OpCode::CopyIn: return Activity::CopyIn;
    case OpCode::CopyOut: return Activity::CopyOut;
    case OpCode::GradientNorm: return Activity::Optimizer;
    case OpCode::OptimizerStep: return i.stream == StreamId::Host ? Activity::HostOptimizer : Activity::Optimizer;
    default: return Activity::Cast;
  }
}

std::string_view to_string(Activity activity) {
  static constexpr std::array<std::string_view, std::size_t(kNumActivities)> kNames{
      "forward",    "recompute",    "backward", "head and loss", "optimizer", "all-gather",           "reduce-scatter",
      "all-reduce", "send/receive", "copy in",  "copy out",      "cast",      "optimizer on the host"};
  return kNames[std::size_t(activity)];
}

bool is_communication(Activity activity) { return activity >= Activity::AllGather && activity <= Activity::CopyOut; }

}  // namespace gpuplan
