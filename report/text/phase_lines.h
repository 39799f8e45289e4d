// A step of reinforcement learning on two time lines, trainer and engine, with the memory of the fullest GPU that
// trains.
#pragma once

#include <string>

#include "planner/strategy_estimate.h"
#include "report/text/screen.h"

namespace gpuplan {

/// Draws lines of equal length and their legend. Empty text for a step without generation.
std::string phase_lines_text(const StrategyEstimate& e, const Screen& screen);

}  // namespace gpuplan
