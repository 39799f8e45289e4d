// What the executor_*.cpp share.
#pragma once

#include <memory>
#include <vector>

#include "run/executor.h"

namespace gpuplan {

/// A task of the step with everything it touches as pointers.
struct Executor::Bound {
  const StepTask* task = nullptr;
  const Instruction* instruction = nullptr;
  std::vector<std::byte*> operands, locals;
  std::vector<std::uint32_t> waits;     // tasks of other streams
  std::unique_ptr<Event> done;          // recorded where another stream waits for it
  std::unique_ptr<Event> began, ended;  // where times are recorded
};

/// What differs from step to step.
struct Executor::Scalars {
  double learning_rate{};
  const OptimizerSettings& settings;
  std::int64_t number{};
  double label_tokens = 0;  // of the global batch
  bool has_norm = false;
  bool stop = false;  // asked of this rank, then of any
  double loss = 0, grad_norm = 0;
  float gradient_scale = 1;  // of clipping
};

}  // namespace gpuplan
