// The tasks of one rank that are issued and not finished: instructions with what they still wait for. Which tasks an
// instruction waits for follows from its operands, its stream and the gates of the allocator pools.
#pragma once

#include <array>
#include <vector>

#include "sim/program_cursor.h"
#include "sim/sim_time.h"
#include "sim/simulation.h"

namespace gpuplan {

/// Number of a task on its rank, from 1; 0 is none.
using TaskId = std::uint32_t;

struct Task {
  enum class State : std::uint8_t { Waiting, Running, Finished };
  TaskId id{};
  std::uint32_t instruction{};
  std::uint32_t num_waiting{};  // tasks that must finish first
  SimTime launched;             // by the host: no start before
  SimTime floor;                // no end before: its last kernels were launched then
  SimTime begin, updated;       // of the run; when `remaining` was last right
  double remaining{};           // seconds of work at full speed
  double work{};                // of a transfer, once it has finished: seconds under way
  SimTime worked;               // of work: its end, if all its kernels were launched in time
  std::uint32_t stamp{};        // of the event that ends it
  std::uint32_t cause{Span::kNoSpan};
  std::uint16_t micro_batch{};
  StreamId stream{};
  State state{State::Finished};
  std::vector<TaskId> successors;
};

/// Ring of the last tasks of a rank.
class RankTasks {
 public:
  RankTasks(const StepProgram& all, const RankProgram& program);

  bool can_issue() const { return !cursor_.is_done() && next_ - oldest_ < kWindow; }
  bool is_done() const { return cursor_.is_done() && oldest_ == next_; }
  const Instruction& next_instruction() const { return cursor_.instruction(); }

  /// Makes the next instruction a task with its dependencies; nullptr for a Release, which only opens gates.
  Task* issue();
  Task& at(TaskId id) { return tasks_[id % kWindow]; }
  /// Marks finished and forgets the oldest finished ones.
  void retire(Task& task);
  const RankProgram& program() const { return *program_; }

 private:
  /// How far the host runs ahead of the device, in instructions.
  static constexpr TaskId kWindow = 256;
  using PerStream = std::array<TaskId, kNumStreams>;
  struct Use {
    TaskId written{};
    PerStream read{};
  };

  void wait_for(Task& task, TaskId other);
  void wait_for_all(Task& task, const PerStream& others);
  void collect_operands(Task* task, const Instruction& i);
  void mark_operands(TaskId id, const Instruction& i, bool is_release);

  const StepProgram* all_;
  const RankProgram* program_;
  ProgramCursor cursor_;
  std::vector<Task> tasks_;
  std::vector<Use> uses_;                       // per buffer
  PerStream tail_{};                            // last task per stream
  std::array<PerStream, kNumStreams> gates_{};  // per pool: users of what was freed
  TaskId next_ = 1, oldest_ = 1;
};

}  // namespace gpuplan
