// What the validate command has to show: the points, what became of each, and which views were asked for.
#pragma once

#include <optional>
#include <vector>

#include "planner/accuracy.h"
#include "validate/constants.h"
#include "validate/picks.h"
#include "validate/report.h"
#include "validate/speed_report.h"

namespace gpuplan {

struct ValidationAnswer {
  ValidationAnswer() = default;
  ValidationAnswer(ValidationAnswer&&) = default;  // not copied: results would point into the other's points
  ValidationAnswer& operator=(ValidationAnswer&&) = default;

  std::vector<Point> points;
  std::vector<PointResult> results;  // point into `points`
  MemorySummary memory;
  SpeedSummary speed;
  Accuracy ranges;  // that these points give
  std::vector<EmpiricalConstant> constants;
  std::optional<Grouping> by;
  std::optional<std::vector<PickSummary>> picks;  // memory, speed
  std::size_t num_worst = 5;                      // shown in the text
};

/// Judges the points and sums up.
ValidationAnswer validate_points(std::vector<Point> points, const TimeRefinement& refine = {});

}  // namespace gpuplan
