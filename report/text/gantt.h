// A chart of one step for terminals: a row per stream of each simulated GPU, time to the right.
#pragma once

#include <optional>
#include <string>

#include "report/text/screen.h"
#include "sim/simulation.h"

namespace gpuplan {

/// What part of the step is drawn, and of how many GPUs.
struct GanttView {
  SimTime begin;
  std::optional<SimTime> end;  // not given: the end of the step
  std::size_t max_ranks = 8;
};

/// Rows, a time axis and a legend of what appears. A column shows what takes most of its time, and nothing when less
/// than a quarter of it is busy. Empty text for a simulation without spans.
std::string gantt_text(const Simulation& simulation, const GanttView& view, const Screen& screen);

}  // namespace gpuplan
