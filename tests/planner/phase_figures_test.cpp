// Places of phases in a step, by hand: one after the other in the order of a step, and beside training what an engine
// writes ahead.
#include "planner/phase_figures.h"

#include <vector>

#include <doctest/doctest.h>

namespace gpuplan {
namespace {

PhaseFigures phase(PhaseKind kind, double seconds, double beside = 0) {
  return {.kind = kind, .time = {.step = Seconds{seconds}}, .beside = Seconds{beside}};
}

}  // namespace

TEST_CASE("phases follow each other as they run, however they are listed") {
  std::vector phases{phase(PhaseKind::Training, 4), phase(PhaseKind::OtherPass, 1), phase(PhaseKind::Generation, 3),
                     phase(PhaseKind::WeightSync, 2), phase(PhaseKind::OtherPass, 0.5)};
  phases.push_back(phase(PhaseKind::OtherPass, 100));
  phases.back().is_before_training = true;
  place_in_step(phases);
  CHECK(phases[2].begin.value == 0);  // generation
  CHECK(phases[1].begin.value == 3);  // passes in the order of their list
  CHECK(phases[4].begin.value == 4);
  CHECK(phases[0].begin.value == 4.5);  // training
  CHECK(phases[3].begin.value == 8.5);  // weights to the engine, at the end
  CHECK(phases[5].begin.value == 0);    // once before training: in no step
}

TEST_CASE("answers that are written ahead begin with the step, and training waits for what is left of them") {
  std::vector phases{phase(PhaseKind::Training, 4), phase(PhaseKind::Generation, 5, 4)};
  place_in_step(phases);
  CHECK(phases[1].begin.value == 0);
  CHECK(phases[0].begin.value == 1);  // 5 - 4 before it, 4 beside it: both end at 5
}

TEST_CASE("every kind has a name of its own, and runs somewhere but what judges answers and what lies between") {
  for (const PhaseKind kind : {PhaseKind::Generation, PhaseKind::Rewards, PhaseKind::OldLogProbs, PhaseKind::OtherPass,
                               PhaseKind::Training, PhaseKind::WeightSync, PhaseKind::Switch, PhaseKind::Rest}) {
    const PhaseKindRow& row = row_of(kind);
    CHECK(row.kind == kind);
    CHECK((row.trains || row.generates) == (kind != PhaseKind::Rewards && kind != PhaseKind::Rest));
  }
}

}  // namespace gpuplan
