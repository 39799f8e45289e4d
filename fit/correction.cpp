#include "fit/correction.h"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fit/robust_fit.h"

namespace gpuplan {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr std::array<double, 4> kReaches{1, 2, 4, 8};        // octaves
constexpr std::array<double, 4> kNoises{0.03, 0.1, 0.3, 1};  // variance at one place over that between places
constexpr double kLeastGain = 0.1;                           // of the mean error: less could be chance
constexpr std::size_t kLeastPoints = 6;

/// Covariance of points with themselves, without noise. A correction of one point of weight 1 is a row of it.
MatrixXd covariance(std::span<const CorrectionSizes> sizes, std::span<const std::size_t> points,
                    const CorrectionMetric& metric) {
  const auto size = Eigen::Index(points.size());
  MatrixXd out(size, size);
  for (Eigen::Index i = 0; i < size; ++i) {
    const LocalCorrection one(metric, {{sizes[points[std::size_t(i)]], 1.0}});
    for (Eigen::Index j = 0; j < size; ++j) out(i, j) = one.at(sizes[points[std::size_t(j)]]);
  }
  return out;
}

struct Candidate {
  CorrectionMetric metric;
  VectorXd weights;
  double error = std::numeric_limits<double>::infinity();  // mean of |measured - predicted from the other points|
};

/// Errors of leaving one point out, in closed form. Source: Rasmussen & Williams 2006, eq. 5.12.
Candidate try_out(const MatrixXd& covariance, const CorrectionMetric& metric, double noise, const VectorXd& left_over) {
  const auto identity = MatrixXd::Identity(covariance.rows(), covariance.cols());
  const MatrixXd inverse = (covariance + noise * identity).llt().solve(identity);
  const VectorXd weights = inverse * left_over;
  return {metric, weights, (weights.array() / inverse.diagonal().array()).abs().mean()};
}

}  // namespace

LocalCorrection fit_correction(std::span<const CorrectionSizes> sizes, std::span<const double> errors, double scale,
                               std::span<const std::size_t> asked, double alignment) {
  std::vector<std::size_t> points(asked.begin(), asked.end());
  std::erase_if(points, [&](std::size_t point) { return std::abs(errors[point]) > kTukey * scale; });
  if (points.size() < kLeastPoints) return {};
  VectorXd left_over(Eigen::Index(points.size()));
  for (std::size_t i = 0; i < points.size(); ++i) left_over[Eigen::Index(i)] = -errors[points[i]];
  Candidate best{.error = (1 - kLeastGain) * left_over.array().abs().mean()};
  for (const double reach : kReaches) {
    const CorrectionMetric metric{reach, alignment};
    const MatrixXd similar = covariance(sizes, points, metric);
    for (const double noise : kNoises)
      if (Candidate other = try_out(similar, metric, noise, left_over); other.error < best.error)
        best = std::move(other);
  }
  std::vector<LocalCorrection::Point> out;
  for (Eigen::Index i = 0; i < best.weights.size(); ++i)
    out.push_back({sizes[points[std::size_t(i)]], best.weights[i]});
  return {best.metric, std::move(out)};
}

}  // namespace gpuplan
