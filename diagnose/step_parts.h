// What a step is made of, in the same parts whether a profiler measured it or the simulator predicts it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "diagnose/profiler_names.h"
#include "diagnose/profiler_trace.h"

namespace gpuplan {

enum class StepPhase : std::uint8_t { Forward, Backward, Optimizer, Count };
constexpr int kNumStepPhases = int(StepPhase::Count);
inline constexpr std::array<const char*, kNumStepPhases> kStepPhaseNames{"forward", "backward", "optimizer"};

/// Means over the steps that were looked at, of one GPU (or of one process, where a CPU does the work).
struct StepParts {
  std::int64_t num_steps = 1;
  Seconds step;                                      // from step to step
  std::array<Seconds, kNumStepPhases> phases{};      // compute, by what it belongs to; recompute is backward's
  std::array<Seconds, kNumKernelClasses> classes{};  // by what kernels do; kernels beside each other count twice
  Seconds compute;                                   // any kernel that is no collective and no copy
  Seconds communication;                             // any collective, waiting for others included
  Seconds overlap;                                   // of it, beside compute
  Seconds exposed;                                   // of it, beside nothing
  Seconds copies;                                    // between host and GPU, beside nothing
  Seconds idle;                                      // nothing on the GPU
  Seconds loader;                                    // the training loop waits for its data; 0 is not said
  double launches{};
  bool is_of_cpu = false;
  bool has_steps = true;  // false: the whole trace is one

  const Seconds& of(KernelClass c) const { return classes[std::size_t(c)]; }
};

/// Sums of the profiler's steps; of the whole trace, where it marks none. The GPU that works most. Throws InputError
/// naming `where` for a trace without work.
StepParts parts_of(const ProfilerTrace& trace, const std::string& where);

}  // namespace gpuplan
