#include "planner/phase_figures.h"

#include <algorithm>
#include <array>

namespace gpuplan {
namespace {

constexpr std::array kPhaseKinds{
    PhaseKindRow{PhaseKind::Generation, "generation", "generation", false, true},
    PhaseKindRow{PhaseKind::Rewards, "rewards", "rewards", false, false},
    PhaseKindRow{PhaseKind::OldLogProbs, "old-log-probs", "log-probs and other passes without gradients", true, false},
    PhaseKindRow{PhaseKind::OtherPass, "other-pass", "log-probs and other passes without gradients", true, false},
    PhaseKindRow{PhaseKind::Training, "training", "training", true, false},
    PhaseKindRow{PhaseKind::WeightSync, "weight-sync", "weight sync", true, true},
    PhaseKindRow{PhaseKind::Switch, "switch", "moved to the host and back", true, true},
    PhaseKindRow{PhaseKind::Rest, "rest", "preparing batches and measuring, between phases", false, false}};

}  // namespace

const PhaseKindRow& row_of(PhaseKind kind) { return *std::ranges::find(kPhaseKinds, kind, &PhaseKindRow::kind); }

void place_in_step(std::vector<PhaseFigures>& phases) {
  Seconds now;
  for (const PhaseKindRow& row : kPhaseKinds)
    for (PhaseFigures& phase : phases) {
      if (phase.kind != row.kind || phase.is_before_training) continue;
      phase.begin = now;
      now += phase.time.step - phase.beside;
    }
}

}  // namespace gpuplan
