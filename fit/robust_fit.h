// Robust least squares in log space: what every fit of calibrate/ is made with. Parameters are positive and fitted as
// logarithms, times are compared as ln(fitted / measured), and a sample far from the rest loses its weight (Tukey's
// biweight).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "cluster/profile/gemm_surface.h"

namespace gpuplan {

/// Prior knowledge of a parameter. It weighs as much as one sample, so it decides only what the samples leave open:
/// such a parameter stays at its usual value with a wide interval.
struct ParameterPrior {
  double usual = 1;
  double spread = 2;  // standard deviation of its logarithm
  double most = 1e300;
  bool may_be_none = false;  // an interval that reaches below the usual value then reaches 0
};

struct FitProblem {
  std::vector<ParameterPrior> parameters;
  std::vector<double> measured;  // > 0
  std::vector<double> noise;     // relative, of each measurement by itself; empty: alike
  std::function<std::vector<double>(std::span<const double> parameters)> model;  // times of all points
};

struct FitSolution {
  std::vector<Fitted> parameters;
  std::vector<double> errors;  // ln(fitted / measured) of all points of the problem
  double scale{};              // robust standard deviation of the errors
  double cost{};               // negative log likelihood; compares models of one problem

  std::vector<double> values() const;
};

/// Tukey's biweight: where samples lose all weight, in standard deviations; 95 % efficient on normal errors.
/// Source: Huber & Ronchetti 2009, Robust Statistics, section 4.8.
inline constexpr double kTukey = 4.685;
/// Its cost of an error, in squares of the error's unit; `reach` is kTukey standard deviations, beyond which it does
/// not grow.
double tukey_cost(double error, double reach);

/// 0 to count - 1.
std::vector<std::size_t> all_points(std::size_t count);

/// Fits the points named, from several starts, or from `near` alone where a similar fit is at hand; deterministic.
/// Requires: at least one point.
FitSolution fit_robustly(const FitProblem& problem, std::span<const std::size_t> points,
                         const FitSolution* near = nullptr);
FitSolution fit_robustly(const FitProblem& problem, const FitSolution* near = nullptr);

}  // namespace gpuplan
