// The phases of a step on time lines, of those that train and of an engine, with the memory of the fullest GPU.
#pragma once

#include <string>

#include "planner/strategy_estimate.h"
#include "report/text/screen.h"

namespace gpuplan {

/// Draws lines of equal length and their legend. Empty text for a step of one phase.
std::string phase_lines_text(const StrategyEstimate& e, const Screen& screen);

}  // namespace gpuplan
