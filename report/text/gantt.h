// A chart of one step for terminals: a row per stream of each simulated GPU, time to the right.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/text/screen.h"
#include "sim/sim_time.h"
#include "sim/simulation.h"

namespace gpuplan {

struct TimeMark {
  SimTime time;
  std::string label;  // "250 ms"
};

/// Marks at multiples of 1, 2 or 5 times a power of ten within [begin, end], at most `max_marks` of them.
std::vector<TimeMark> time_marks(SimTime begin, SimTime end, int max_marks);

/// Holds what part of the step is drawn, and of how many GPUs.
struct GanttView {
  SimTime begin;
  std::optional<SimTime> end;  // not given: the end of what spans are of
  std::size_t max_ranks = 8;
};

/// Rows, a time axis and a legend of what appears. A column shows what takes most of its time, and nothing when less
/// than a quarter of it is busy. Empty text for a simulation without spans.
std::string gantt_text(const Simulation& simulation, const GanttView& view, const Screen& screen);

}  // namespace gpuplan
