// What an instruction does, in the words of a timeline.
#pragma once

#include <cstdint>
#include <string_view>

#include "planner/step_program.h"

namespace gpuplan {

/// Names what a span does, for colours and sums.
enum class Activity : std::uint8_t {
  Forward,
  Recompute,
  Backward,
  Head,
  Optimizer,
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  SendRecv,
  CopyIn,
  CopyOut,
  Cast,
  HostOptimizer,
  Count
};
constexpr int kNumActivities = int(Activity::Count);
std::string_view to_string(Activity activity);
bool is_communication(Activity activity);

Activity activity_of(const Instruction& instruction);

}  // namespace gpuplan
