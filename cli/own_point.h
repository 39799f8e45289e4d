// gpuplan diagnose --as-point: a run as a line that gpuplan validate reads, with its plan and what was measured.
#pragma once

#include <string>

#include "diagnose/diagnosis.h"
#include "planner/estimate.h"

namespace gpuplan {

/// One line of JSON (data/validation/README.md, "A question of your own"). Throws InputError for methods that generate.
std::string own_point(const EstimateResult& planned, const StrategyEstimate& shown, const MeasuredRun& run);

}  // namespace gpuplan
