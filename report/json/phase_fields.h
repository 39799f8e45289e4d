// The fields of a step's phases, which several answers have: report/json/estimate_fields.h.
#pragma once

#include <string>

#include "planner/phase_figures.h"

namespace gpuplan {

template <class Archive>
void list_fields(Archive& f, const StepTime& time) {
  f("compute_seconds", time.compute);
  f("communication_seconds", time.communication);
  f("exposed_seconds", time.exposed, "of the step without computing");
  f("host_seconds", time.host, "what dispatch alone would take");
  f("flops_per_gpu", time.flops, "of one step, recompute included");
}

template <class Archive>
void list_fields(Archive& f, const PhaseFigures& phase) {
  const PhaseKindRow& row = row_of(phase.kind);
  f("name", phase.name);
  f("kind", std::string(row.name));
  f("runs_on_trainers", row.trains, "on the GPUs that train");
  f("runs_on_engine", row.generates, "on those of the engine that writes answers, which may be the same");
  f("rows", phase.rows, "that its model reads per micro-batch");
  f("resident_bytes", phase.resident, "of its own model, as long as training runs");
  f("tensors_bytes", phase.tensors, "the most that is alive while it runs, other models included");
  f("begin_seconds", phase.begin, "in the step, its micro-batches taken together");
  f("seconds", phase.time.step, "per step; of one before training, all of it");
  f("time", phase.time);
  f("is_before_training", phase.is_before_training);
}

}  // namespace gpuplan
