#include "sim/rank_tasks.h"

#include <algorithm>

#include "base/error.h"

namespace gpuplan {

using namespace operand;

RankTasks::RankTasks(const StepProgram& all, const RankProgram& program)
    : all_(&all),
      program_(&program),
      cursor_(all, program),
      tasks_(kWindow),
      uses_(program.buffers.size()) {}

void RankTasks::wait_for(Task& task, TaskId other) {
  if (other < oldest_ || other == task.id) return;  // long finished
  Task& before = at(other);
  if (before.state == Task::State::Finished) return;
  if (!before.successors.empty() && before.successors.back() == task.id) return;
  before.successors.push_back(task.id);
  ++task.num_waiting;
}

void RankTasks::wait_for_all(Task& task, const PerStream& others) {
  for (const TaskId other : others) wait_for(task, other);
}

/// Hazards: read after write, write after read and write; an allocation waits at the gate of its pool.
void RankTasks::collect_operands(Task* task, const Instruction& i) {
  const PerStream& gate = gates_[std::size_t(i.stream)];
  if (task && i.op == OpCode::Call) wait_for_all(*task, gate);
  for (const Operand o : all_->operands_of(*program_, i)) {
    Use& use = uses_[id(o)];
    if (o & kAllocates) {
      if (task) wait_for_all(*task, gate);
      use = {};
    }
    if (!task) continue;
    if (o & (kRead | kWrite)) wait_for(*task, use.written);
    if (o & kWrite) wait_for_all(*task, use.read);
  }
}

void RankTasks::mark_operands(TaskId task, const Instruction& i, bool is_release) {
  for (const Operand o : all_->operands_of(*program_, i)) {
    Use& use = uses_[id(o)];
    if (!is_release && (o & kRead)) use.read[std::size_t(i.stream)] = task;
    if (!is_release && (o & kWrite)) use.written = task, use.read = {};
    if (!(o & kFrees)) continue;
    PerStream& gate = gates_[std::size_t(program_->buffers[id(o)].home)];
    const auto keep_out = [&](TaskId user, std::size_t stream) { gate[stream] = std::max(gate[stream], user); };
    for (std::size_t s = 0; s < std::size_t(kNumStreams); ++s) keep_out(use.read[s], s);
    if (use.written >= oldest_ && use.written > 0) keep_out(use.written, std::size_t(at(use.written).stream));
  }
}

Task* RankTasks::issue() {
  const Instruction& i = cursor_.instruction();
  if (i.op == OpCode::Release) {
    mark_operands(0, i, true);
    cursor_.advance();
    return nullptr;
  }
  Task& task = at(next_);
  GPUPLAN_CHECK(task.state == Task::State::Finished, "a task slot is taken");
  std::vector<TaskId> successors = std::move(task.successors);
  successors.clear();
  task = {.id = next_,
          .instruction = cursor_.index(),
          .micro_batch = cursor_.micro_batch(),
          .stream = i.stream,
          .state = Task::State::Waiting,
          .successors = std::move(successors)};
  ++next_;
  TaskId& tail = tail_[std::size_t(i.stream)];
  wait_for(task, tail);
  tail = task.id;
  collect_operands(&task, i);
  mark_operands(task.id, i, false);
  cursor_.advance();
  return &task;
}

void RankTasks::retire(Task& task) {
  task.state = Task::State::Finished;
  while (oldest_ < next_ && at(oldest_).state == Task::State::Finished) ++oldest_;
}

}  // namespace gpuplan
