// Order statistics and what robust fits are made of.
#pragma once

#include <span>
#include <vector>

namespace gpuplan {

/// Of a copy of `values`, interpolated; 0 for none.
double quantile(std::vector<double> values, double share);

/// Standard deviation of normal noise about 0 that has the same median of |error|: outliers do not move it.
double robust_deviation(std::span<const double> errors);

/// Tukey's biweight: where samples lose all weight, in standard deviations; 95 % efficient on normal errors.
/// Source: Huber & Ronchetti 2009, Robust Statistics, section 4.8.
inline constexpr double kTukey = 4.685;
/// Its cost of an error, in squares of the error's unit; `reach` is kTukey standard deviations, beyond which it does
/// not grow.
double tukey_cost(double error, double reach);

}  // namespace gpuplan
