// A rank's step program written out: every instruction once per turn, with the lifetime behind each operand and each
// local. Program order is memory order, as in the memory replay.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/memory.h"
#include "run/address_plan.h"

namespace gpuplan {

/// A piece of memory: a persistent buffer, or a lifetime.
struct Piece {
  std::uint32_t buffer = 0;    // of the program; 0: a block's local
  std::int32_t lifetime = -1;  // -1: persistent
  bool is_none() const { return buffer == 0 && lifetime < 0; }
};

/// One instruction as it runs once.
struct StepTask {
  std::uint32_t instruction{};
  std::uint32_t micro_batch{};
  std::vector<Piece> operands;  // as the instruction's
  std::vector<Piece> locals;    // of what runs a block, by LocalId; slots too
};

struct StepTrace {
  std::vector<StepTask> tasks;  // without Release, Repeat and EndRepeat
  std::vector<Lifetime> lifetimes;
  std::vector<Category> categories;  // of each lifetime
  std::vector<MemorySpace> spaces;
};

/// Requires: every buffer is in the device's or the host's memory.
StepTrace trace_step(const StepProgram& all, const RankProgram& program);

}  // namespace gpuplan
