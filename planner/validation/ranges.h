// From the errors of validation to the ranges that estimates state. A range must hold for measurements of sources it has not
// seen: it is widened until leaving one source out covers 80 % of the points, each judged by the others.
#pragma once

#include <vector>

#include "planner/accuracy.h"
#include "planner/validation/judge.h"
#include "planner/validation/statistics.h"

namespace gpuplan {

/// One measurement of a figure.
struct Ratio {
  Method method{};
  PointPlace place;
  double measured_over_predicted = 1;
};

inline constexpr double kWantedCoverage = 0.80, kUsualTail = 0.10;
/// Fewer than this and a method has no range of its own.
inline constexpr std::size_t kLeastPoints = 20, kLeastSources = 3;

/// Quantiles at `tail` and 1 - tail of the ratios, macro-weighted, then widened; for all and for methods with enough points.
FigureAccuracy derive_ranges(const std::vector<Ratio>& ratios, double tail, double widening);

/// The share of points inside the range that the points of the other sources give.
double left_out_coverage(const std::vector<Ratio>& ratios, double tail, double widening);

/// The narrowest range that reaches the wanted coverage.
FigureAccuracy fit_ranges(const std::vector<Ratio>& ratios);

/// Every measurement of one figure among the scored points.
std::vector<Ratio> ratios_of(const std::vector<PointResult>& results, Figure figure);

/// The ranges of every figure that was measured by at least three sources.
Accuracy fit_accuracy(const std::vector<PointResult>& results);

}  // namespace gpuplan
