// From the errors of validation to the ranges that estimates state. A range must hold for measurements of sources it
// has not seen: it is widened until leaving one source out covers 80 % of the points, each judged by the others.
#pragma once

#include <vector>

#include "planner/accuracy.h"
#include "validate/judge.h"
#include "validate/statistics.h"

namespace gpuplan {

/// One measurement of a figure.
struct Ratio {
  Method method{};
  PointPlace place;
  double measured_over_predicted = 1;
};

inline constexpr double kWantedCoverage = 0.80, kUsualTail = 0.10;
/// Fewer than this and a method has no range of its own; a figure needs one source more.
inline constexpr std::size_t kLeastPoints = 20, kLeastSources = 3;

/// Quantiles at `tail` and 1 - `tail` of the ratios, macro-weighted, then widened by a power.
AccuracyRange derive_range(const std::vector<Ratio>& ratios, double tail, double widening);

/// The share of points inside the range that the points of the other sources give.
double left_out_coverage(const std::vector<Ratio>& ratios, double tail, double widening);

/// The narrowest range that reaches the wanted coverage: first a smaller tail, then a wider power.
AccuracyRange fit_range(const std::vector<Ratio>& ratios);

/// Of all points, and of each method with enough points whose range needs no widening and is narrower than that of all.
FigureAccuracy fit_ranges(const std::vector<Ratio>& ratios);

/// Every measurement of one figure among the scored points.
std::vector<Ratio> ratios_of(const std::vector<PointResult>& results, Figure figure);

/// The ranges of every figure that enough sources measured.
Accuracy fit_accuracy(const std::vector<PointResult>& results);

}  // namespace gpuplan
