// What a fitted form leaves over where a library behaves in its own way: ln(measured / form) at the measured places,
// carried to places near them. A form of few parameters says how time grows; this says what this machine does here.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

namespace gpuplan {

/// Sizes that a time depends on: m, n, k and batch of a product; bytes of a message. Those it does not depend on are 1.
using CorrectionSizes = std::array<std::int64_t, 4>;

/// Distance between shapes: the sum over sizes of |log2 of their ratio|, and of `alignment` for each power of two (up
/// to 2^12) that divides one and not the other. Libraries choose kernels by both.
struct CorrectionMetric {
  double reach = 1;    // distance after which places agree by 1/e
  double alignment{};  // octaves
};

/// A factor of 10: a form that is further off was not fitted to this machine.
inline constexpr double kMostCorrection = 2.302585092994046;

/// Simple kriging with the covariance exp(-distance / reach), the roughest common one, as libraries switch algorithms
/// from one size to the next. Source: Rasmussen & Williams 2006, Gaussian Processes for Machine Learning, eq. 2.25
/// and 4.2.1.
class LocalCorrection {
 public:
  struct Point {
    CorrectionSizes sizes{};
    double weight{};
  };

  LocalCorrection() = default;  // none: 0 everywhere
  LocalCorrection(const CorrectionMetric& metric, std::vector<Point> points);

  /// ln(time / form); tends to 0 far from all points, and is at most kMostCorrection either way.
  double at(const CorrectionSizes& sizes) const;

  bool is_empty() const { return points_.empty(); }
  const CorrectionMetric& metric() const { return metric_; }
  const std::vector<Point>& points() const { return points_; }

 private:
  using Place = std::array<double, 2 * std::tuple_size_v<CorrectionSizes>>;
  Place place_of(const CorrectionSizes& sizes) const;

  CorrectionMetric metric_;
  std::vector<Point> points_;
  std::vector<Place> places_;  // of the points; distances are sums of differences
};

}  // namespace gpuplan
