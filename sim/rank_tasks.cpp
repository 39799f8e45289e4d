#include "sim/rank_tasks.h"

#include "base/error.h"

namespace gpuplan {

RankTasks::RankTasks(const RankProgram& program) : program_(&program), cursor_(program), tasks_(kWindow) {
  waits_.reset(program);
}

void RankTasks::wait_for(Task& task, TaskId other) {
  if (other < oldest_) return;  // long finished
  Task& before = at(other);
  if (before.state == Task::State::Finished) return;
  before.successors.push_back(task.id);
  ++task.num_waiting;
}

Task* RankTasks::issue() {
  const Instruction& i = cursor_.instruction();
  if (i.op == OpCode::Release) {
    waits_.release(cursor_.operands());
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
  for (const TaskId other : waits_.begin(i, cursor_.operands()).of_stream) wait_for(task, other);
  LatestTasks end;
  end.of_stream[std::size_t(i.stream)] = task.id;
  waits_.end(i, cursor_.operands(), end);
  cursor_.advance();
  return &task;
}

void RankTasks::retire(Task& task) {
  task.state = Task::State::Finished;
  while (oldest_ < next_ && at(oldest_).state == Task::State::Finished) ++oldest_;
}

}  // namespace gpuplan
