// gpuplan validate on points whose question is a line of flags, as steps and phases of methods that generate are, or a
// plan, as `diagnose --as-point` writes them.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "report/phase_points.h"

namespace gpuplan {

/// The points of a file of this kind, with their predictions; empty: it is of another kind. Throws InputError naming
/// the line.
std::optional<std::vector<PhasePoint>> judge_phase_points(const std::string& file);

}  // namespace gpuplan
