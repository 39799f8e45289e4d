#include "cluster/profile/local_correction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace gpuplan {

LocalCorrection::LocalCorrection(const CorrectionMetric& metric, std::vector<Point> points)
    : metric_(metric),
      points_(std::move(points)) {
  for (const Point& point : points_) places_.push_back(place_of(point.sizes));
}

double LocalCorrection::at(const CorrectionSizes& sizes) const {
  if (is_empty()) return 0;
  const Place here = place_of(sizes);
  double sum = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    double distance = 0;
    for (std::size_t d = 0; d < here.size(); ++d) distance += std::abs(here[d] - places_[i][d]);
    sum += points_[i].weight * std::exp(-distance / metric_.reach);
  }
  return std::clamp(sum, -kMostCorrection, kMostCorrection);
}

LocalCorrection::Place LocalCorrection::place_of(const CorrectionSizes& sizes) const {
  constexpr int kMostAlignment = 12;  // a page
  Place place{};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto size = std::uint64_t(std::max<std::int64_t>(sizes[i], 1));
    place[2 * i] = std::log2(double(size));
    place[2 * i + 1] = metric_.alignment * std::min(std::countr_zero(size), kMostAlignment);
  }
  return place;
}

}  // namespace gpuplan
