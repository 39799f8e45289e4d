#include "calibrate/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpuplan {

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = share * double(values.size() - 1);
  const auto below = std::size_t(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - double(below)) * (values[above] - values[below]);
}

double robust_deviation(std::span<const double> errors) {
  constexpr double kNormal = 1.4826;  // standard deviation over median of |error| of normal noise
  std::vector<double> sizes;
  for (const double error : errors) sizes.push_back(std::abs(error));
  return kNormal * quantile(std::move(sizes), 0.5);
}

double tukey_cost(double error, double reach) {
  const double rest = 1 - std::min(1.0, std::pow(error / reach, 2));
  return reach * reach / 6 * (1 - rest * rest * rest);
}

}  // namespace gpuplan
