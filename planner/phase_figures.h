// A phase of a training step in figures, and its place in the step: docs/phases.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "planner/step_time.h"

namespace gpuplan {

/// Says what a phase does, in the order of a step.
enum class PhaseKind : std::uint8_t { Generation, Rewards, OldLogProbs, OtherPass, Training, WeightSync, Switch, Rest };

/// Says where phases of a kind run, in one word of JSON and in words for people.
struct PhaseKindRow {
  PhaseKind kind;
  std::string_view name, meaning;
  bool trains, generates;  // on the GPUs that train; on those of an engine
};
const PhaseKindRow& row_of(PhaseKind kind);

/// Holds what a phase takes, on the fullest class of ranks.
struct PhaseFigures {
  std::string name;
  PhaseKind kind = PhaseKind::OtherPass;
  std::int64_t rows{};  // that the model reads per micro-batch, all times together
  Bytes resident;       // its own model, as long as training runs
  Bytes tensors;        // the most that is alive while it runs, other models included
  StepTime time;        // per step; of one that runs before training: all of it
  bool is_before_training{};
  Seconds beside;     // of its time, what runs beside training
  std::string bound;  // what keeps it from being faster, where that is no part of its time; empty: see there
  Seconds begin;      // in the step, all its micro-batches taken together; of one before training: 0
};

/// Sets where each phase begins: in the order of a step, with what an engine does beside training.
void place_in_step(std::vector<PhaseFigures>& phases);

}  // namespace gpuplan
