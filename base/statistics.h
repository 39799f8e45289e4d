// Order statistics.
#pragma once

#include <span>
#include <utility>
#include <vector>

namespace gpuplan {

/// Quantile of a copy of `values`, interpolated between neighbours; 0 for none.
double quantile(std::vector<double> values, double share);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Standard deviation of normal noise about 0 that has the same median of |error|: outliers do not move it.
double robust_deviation(std::span<const double> errors);

/// A median with its distribution-free 95 % interval; fewer than 6 values have none, and get their range.
struct MedianInterval {
  double median{}, low{}, high{};
};
/// Requires: not empty.
MedianInterval median_interval(std::vector<double> values);

/// The smallest value at which `share` of the weight is reached; NaN for no values. Sizes must be equal.
double weighted_quantile(std::span<const double> values, std::span<const double> weights, double share);

}  // namespace gpuplan
