// The tasks of one rank that are issued and not finished: instructions with what they still wait for. Which tasks an
// instruction waits for: planner/program_walk.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "planner/program_walk.h"
#include "sim/sim_time.h"
#include "sim/simulated_step.h"

namespace gpuplan {

/// Number of a task on its rank, from 1; 0 is none.
using TaskId = std::uint32_t;

struct Task {
  enum class State : std::uint8_t { Waiting, Arrived, Running, Finished };  // Arrived: a collective, before its turn
  TaskId id{};
  std::uint32_t instruction{};
  std::uint32_t num_waiting{};  // tasks that must finish first
  SimTime launched;             // by the host: no start before
  SimTime floor;                // no end before: its last kernels were launched then
  SimTime begin, updated;       // of the run; when `remaining` was last right
  double remaining{};           // seconds of work at full speed
  double work{};                // of a transfer, once it has finished: seconds under way
  SimTime worked;               // of work: its end, if all its kernels were launched in time
  std::uint32_t stamp{};        // of the event that ends it; 0: the network does
  std::uint32_t cause{Span::kNoSpan};
  std::uint32_t micro_batch{};
  StreamId stream{};
  State state{State::Finished};
  std::vector<TaskId> successors;
};

/// The latest task of each stream that a moment comes after; 0: none. A stream's tasks end in order.
struct LatestTasks {
  std::array<TaskId, kNumStreams> of_stream{};
  void join(const LatestTasks& other) {
    for (std::size_t s = 0; s < of_stream.size(); ++s) of_stream[s] = std::max(of_stream[s], other.of_stream[s]);
  }
};

/// Ring of the last tasks of a rank.
class RankTasks {
 public:
  explicit RankTasks(const RankProgram& program);

  bool can_issue() const { return !cursor_.is_done() && next_ - oldest_ < kWindow; }
  bool is_done() const { return cursor_.is_done() && oldest_ == next_; }
  /// Returns what would be issued next; nullptr at the end of the program.
  const Instruction* next() const { return cursor_.is_done() ? nullptr : &cursor_.instruction(); }

  /// Makes the next instruction a task with its dependencies; nullptr for a Release, which only opens gates.
  Task* issue();
  Task& at(TaskId id) { return tasks_[id % kWindow]; }
  /// Marks finished and forgets the oldest finished ones.
  void retire(Task& task);
  const RankProgram& program() const { return *program_; }

 private:
  /// Says how far the host runs ahead of the device, in instructions.
  static constexpr TaskId kWindow = 256;

  void wait_for(Task& task, TaskId other);

  const RankProgram* program_;
  ProgramCursor cursor_;
  WaitingRule<LatestTasks> waits_;
  std::vector<Task> tasks_;
  TaskId next_ = 1, oldest_ = 1;
};

}  // namespace gpuplan
