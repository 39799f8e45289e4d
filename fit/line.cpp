#include "fit/line.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace gpuplan {
namespace {

constexpr std::size_t kLeastLineSizes = 3;
constexpr double kTolerance =
    0.03;  // how far the largest sizes may be off, as a median, before small ones are left out

FitProblem problem_of(const std::vector<LinePoint>& points) {
  FitProblem problem;
  std::vector<double> rates;
  for (const LinePoint& p : points) {
    problem.measured.push_back(p.time);
    problem.noise.push_back(p.noise);
    rates.push_back(p.work / p.time);
  }
  const double least = *std::min_element(problem.measured.begin(), problem.measured.end());
  problem.parameters = {{.usual = 0.5 * least, .spread = 2}, {.usual = quantile(rates, 0.9), .spread = 2}};
  problem.model = [&points](std::span<const double> p) {
    std::vector<double> times;
    for (const LinePoint& point : points) times.push_back(p[0] + point.work / p[1]);
    return times;
  };
  return problem;
}

/// Median error of the largest third of the sizes.
double error_at_large(const FitSolution& fitted) {
  std::vector<double> large;
  for (std::size_t i = fitted.errors.size() * 2 / 3; i < fitted.errors.size(); ++i) large.push_back(fitted.errors[i]);
  return std::abs(quantile(large, 0.5));
}

std::vector<std::size_t> sizes_of(const std::vector<LinePoint>& points) {
  std::vector<double> work;
  for (const LinePoint& p : points) work.push_back(p.work);
  return group_by(work);
}

}  // namespace

std::optional<Line> fit_line(std::vector<LinePoint> points) {
  std::sort(points.begin(), points.end(),
            [](auto& a, auto& b) { return std::tie(a.work, a.time) < std::tie(b.work, b.time); });
  std::erase_if(points, [](const LinePoint& p) { return p.work <= 0; });
  if (points.empty() || sizes_of(points).back() + 1 < kLeastLineSizes) return std::nullopt;
  const std::size_t least_sizes = std::max(kLeastLineSizes, (sizes_of(points).back() + 2) / 2);  // half, rounded up
  FitSolution fitted = fit_robustly(problem_of(points));
  while (error_at_large(fitted) > kTolerance && sizes_of(points).back() + 1 > least_sizes) {
    std::erase_if(points, [smallest = points.front().work](const LinePoint& p) { return p.work == smallest; });
    fitted = fit_robustly(problem_of(points));
  }
  return Line{.launch = fitted.parameters[0],
              .rate = fitted.parameters[1],
              .least = points.front().work,
              .most = points.back().work,
              .quality = cross_validate(problem_of(points), fitted, sizes_of(points))};
}

}  // namespace gpuplan
