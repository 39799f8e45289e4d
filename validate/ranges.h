// From the errors of validation to the ranges that estimates state. A range must hold for a source that neither it nor
// the fit has seen. So it is a prediction interval of a random-effects model: a new source brings an offset of its own,
// and its points scatter about it. Cells of few sources borrow mean and variance from their parents (partial pooling),
// and few sources give wide ranges (Student's t). Errors are those of cross-validation.
#pragma once

#include <string>
#include <vector>

#include "planner/accuracy.h"
#include "validate/judge.h"
#include "validate/statistics.h"

namespace gpuplan {

/// One measurement of a figure and the groups it is in: its cell, its parent, all. A kind of model that is scored apart
/// is in no group.
struct Ratio {
  std::vector<std::string> cells;
  PointPlace place;
  double measured_over_predicted = 1;
  std::vector<std::string> traits{};  // of the run (MeasuredKind)
};

/// Eight of ten measurements: a tenth lies beyond each end.
inline constexpr double kTail = 0.10;
/// A cell counts for its number of sources, its parent for so many.
inline constexpr double kSourcesOfParent = 2;
/// A cell that fewer sources measured has no range of its own; a figure needs one source more.
inline constexpr std::size_t kLeastSources = 2;

/// The range of the first of `cells`. Within a source its groups weigh alike, within a group its points. Mean m and
/// variance v of ln(measured / predicted) of the n sources of a cell become (n m + k M) / (n + k) and (n v + k V) /
/// (n + k) with those of its parent, k = kSourcesOfParent; v is about the pooled mean, with what is more than three
/// deviations away taken as three. The ends are mean -+ t sqrt(variance (1 + 1 / (n + k))), t the quantile of Student's
/// distribution with n + k - 1 degrees of freedom, stretched to hold the prediction itself.
/// Source: Higgins, Thompson, Spiegelhalter 2009, section 4.1 (prediction interval of a random-effects meta-analysis).
AccuracyRange derive_range(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells);

/// The share of the points of `judged`, one of `cells` or a cell below, inside the range of `cells` that is derived
/// without their source, sources alike; `num_left_out` 2: the mean over every second source that is left out too.
double left_out_coverage(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells,
                         const std::string& judged, int num_left_out = 1);

/// Ranges of every cell of at least `kLeastSources`, of their parents and of all; of each kind of model that was
/// measured; and of a run unlike any measured one. Cells without a range have their parent's.
FigureAccuracy fit_ranges(const std::vector<Ratio>& ratios);

/// Every measurement of one figure among the scored points and those of kinds of models that are scored apart.
std::vector<Ratio> ratios_of(const std::vector<PointResult>& results, Figure figure);

/// The ranges of every figure that enough sources measured.
Accuracy fit_accuracy(const std::vector<PointResult>& results);

}  // namespace gpuplan
