#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace gpuplan {
namespace {

/// The largest r such that [x_(r), x_(n+1-r)] (counted from 1) holds the median with 95 %: each end misses it with
/// P(Binomial(n, 1/2) < r) <= 2.5 %. 0 below 6 runs: not even least and most reach 95 % then.
/// Source: David & Nagaraja, Order Statistics, section 7.1.
std::int64_t interval_rank(std::int64_t num_runs) {
  double term = std::exp2(-double(num_runs)), tail = 0;  // P(Binomial = i), P(Binomial <= i)
  for (std::int64_t i = 0; i < num_runs; ++i) {
    tail += term;
    if (tail > 0.025) return i;
    term *= double(num_runs - i) / double(i + 1);
  }
  return num_runs / 2;
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
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

MedianInterval median_interval(std::vector<double> values) {
  GPUPLAN_CHECK(!values.empty(), "the median of nothing");
  std::ranges::sort(values);
  const std::int64_t rank = std::max<std::int64_t>(interval_rank(std::ssize(values)), 1);
  return {.median = quantile(values, 0.5),
          .low = values[std::size_t(rank - 1)],
          .high = values[values.size() - std::size_t(rank)]};
}

double weighted_quantile(std::span<const double> values, std::span<const double> weights, double share) {
  GPUPLAN_CHECK(values.size() == weights.size(), "a weight for every value");
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  const double wanted = share * std::accumulate(weights.begin(), weights.end(), 0.0);
  constexpr double kRounding = 1e-12;
  double reached = 0;
  for (const std::size_t i : order)
    if ((reached += weights[i]) >= wanted - kRounding) return values[i];
  return values[order.back()];
}

}  // namespace gpuplan
