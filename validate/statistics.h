// Weighted order statistics over points, so that a harness with a hundred settings weighs no more than one with two.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace gpuplan {

/// Source and group of a point.
struct PointPlace {
  std::string source, group;
};

/// Weights that add up to 1: sources weigh alike, within a source its groups, within a group its points.
std::vector<double> macro_weights(std::span<const PointPlace> places);

/// Signed relative errors, summed up.
struct ErrorSummary {
  std::size_t num_points{}, num_sources{};
  double median{}, p90{};                                        // of |error|, macro-weighted
  double median_signed{};                                        // macro-weighted
  double pooled_median{}, pooled_p90{}, pooled_median_signed{};  // every point alike
  double worst{};                                                // signed, of the largest |error|
  std::size_t worst_at{};                                        // its place in the list
};

ErrorSummary summarise(std::span<const double> errors, std::span<const PointPlace> places);

}  // namespace gpuplan
