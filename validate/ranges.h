// From the errors of validation to the ranges that estimates state. A range must hold for measurements of sources that
// neither it nor the fit has seen: errors are those of cross-validation, and the tail is chosen so that the range of
// the other sources holds 80 % of a cell's points, source by source.
#pragma once

#include <string>
#include <vector>

#include "planner/accuracy.h"
#include "validate/judge.h"
#include "validate/statistics.h"

namespace gpuplan {

/// One measurement of a figure, and the groups it is in: its cell, its parent, all.
struct Ratio {
  std::vector<std::string> cells;
  PointPlace place;
  double measured_over_predicted = 1;
};

inline constexpr double kWantedCoverage = 0.80, kMostCoverage = 0.90, kUsualTail = 0.10;
/// A cell of so many sources counts for half of its range, and its parent for the other half.
inline constexpr double kSourcesOfParent = 2;
/// A cell that fewer sources measured has no range of its own; a figure needs one source more.
inline constexpr std::size_t kLeastSources = 2;

/// Quantiles at `tail` and 1 - `tail` of the ratios of the first of `cells`, shrunk towards the next ones; sources
/// weigh alike. Then widened by a power.
AccuracyRange derive_range(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells, double tail,
                           double widening);

/// The share of the points of `judged`, one of `cells` or a cell below, inside the range that the other sources give.
double left_out_coverage(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells, double tail,
                         double widening, const std::string& judged);

/// The range that the wanted coverage asks for: of a smaller tail, then of a wider power; of a larger tail where even
/// 90 % are covered.
AccuracyRange fit_range(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells);

/// Of every cell of at least `kLeastSources`, parents included, and of all. Other cells have their parent's.
FigureAccuracy fit_ranges(const std::vector<Ratio>& ratios);

/// Every measurement of one figure among the scored points.
std::vector<Ratio> ratios_of(const std::vector<PointResult>& results, Figure figure);

/// The ranges of every figure that enough sources measured.
Accuracy fit_accuracy(const std::vector<PointResult>& results);

}  // namespace gpuplan
