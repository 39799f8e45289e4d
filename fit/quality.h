// How good a fit is: errors on its own points, and on points kept from it (k folds).
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "cluster/profile/probe.h"
#include "fit/robust_fit.h"

namespace gpuplan {

/// Says whether a sample is a figure of this family.
bool is_usable(const Sample& sample, ProbeFamily family);
/// Relative standard deviation of a sample's median, from its interval.
double noise_of(const Sample& sample);

/// Points kept apart together: `group[i]` is what point i belongs to (its shape, its size), numbered from 0 in order of
/// size, so every fold spans the range.
inline constexpr std::size_t kFolds = 10;

/// Errors of points from fits that had not seen their group. `refit(points)` gives a predictor of ln(fitted /
/// measured).
using ErrorOf = std::function<double(std::size_t point)>;
std::vector<double> held_out_errors(std::span<const std::size_t> group,
                                    const std::function<ErrorOf(std::span<const std::size_t>)>& refit);

/// Errors by kind: "fp32 GEMM shapes", "message sizes".
using HeldOutErrors = std::map<std::string, std::vector<double>>;
void append(HeldOutErrors& held_out, const std::string& what, std::span<const double> errors);

/// `scale`: robust deviation of the fit; points beyond kTukey of it lost all weight and count as outliers.
FitQuality fit_quality(std::span<const double> errors, std::span<const double> held_out, double scale);

/// Quality of one robust fit, refitting it for every fold.
FitQuality cross_validate(const FitProblem& problem, const FitSolution& fitted, std::span<const std::size_t> group);

/// Numbers points by the order of their keys; equal keys share a number.
template <class Key>
std::vector<std::size_t> group_by(const std::vector<Key>& keys) {
  std::vector<Key> sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<std::size_t> group;
  for (const Key& key : keys)
    group.push_back(std::size_t(std::lower_bound(sorted.begin(), sorted.end(), key) - sorted.begin()));
  return group;
}

}  // namespace gpuplan
