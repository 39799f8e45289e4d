#include "sim/activity.h"

#include <array>

namespace gpuplan {
namespace {

Activity activity_of(Phase phase) {
  switch (phase) {
    case Phase::Forward: return Activity::Forward;
    case Phase::Head: return Activity::Head;
    case Phase::Recompute: return Activity::Recompute;
    case Phase::Backward: return Activity::Backward;
    case Phase::OptimizerStep: return Activity::Optimizer;
  }
  return {};
}

}  // namespace

Activity activity_of(const Instruction& i) {
  switch (i.op) {
    case OpCode::Call: return activity_of(i.phase);
    case OpCode::AllGather: return Activity::AllGather;
    case OpCode::ReduceScatter: return Activity::ReduceScatter;
    case OpCode::AllReduce: return Activity::AllReduce;
    case OpCode::AllToAll: return Activity::AllToAll;
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
      "forward",    "recompute",  "backward",     "head and loss", "optimizer", "all-gather", "reduce-scatter",
      "all-reduce", "all-to-all", "send/receive", "copy in",       "copy out",  "cast",       "optimizer on the host"};
  return kNames[std::size_t(activity)];
}

bool is_communication(Activity activity) { return activity >= Activity::AllGather && activity <= Activity::CopyOut; }

}  // namespace gpuplan
