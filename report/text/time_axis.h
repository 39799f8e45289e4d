// Round marks on a time axis, for charts in terminals and on pages.
#pragma once

#include <string>
#include <vector>

#include "sim/sim_time.h"

namespace gpuplan {

struct TimeMark {
  SimTime time;
  std::string label;  // "250 ms"
};

/// Marks at multiples of 1, 2 or 5 times a power of ten within [begin, end], at most `max_marks` of them.
std::vector<TimeMark> time_marks(SimTime begin, SimTime end, int max_marks);

}  // namespace gpuplan
