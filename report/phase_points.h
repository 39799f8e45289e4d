// Measured steps and phases beside what is predicted, of points that state a whole question:
// data/validation/rl_steps.jsonl and what `diagnose --as-point` writes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/tiers.h"
#include "report/text/screen.h"

namespace gpuplan {

/// A figure by its name: "generation_seconds", "peak_gib".
struct PhaseFigure {
  std::string name;
  double measured{}, predicted{};
  double log_error() const;
};

struct PhasePoint {
  std::string id, source, flags, outcome, note;  // outcome: ok, oom, or empty
  std::string refused;                           // why there is no prediction
  std::vector<PhaseFigure> figures;
  std::optional<Fit> fit;
  bool counts = true;  // every setting is stated
};

std::string phase_points_text(const std::vector<PhasePoint>& points, const Screen& screen);

}  // namespace gpuplan
