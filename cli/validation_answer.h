// What the validate command has to show: the points, what became of each, and which of it was asked for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/validation/report.h"

namespace gpuplan {

struct ValidationAnswer {
  std::vector<Point> points;
  std::vector<PointResult> results;
  std::optional<Grouping> by;
  std::size_t num_worst = 5;  // shown in the text
};

}  // namespace gpuplan
