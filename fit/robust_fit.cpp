#include "fit/robust_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/statistics.h"

namespace gpuplan {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kEfficiency = 0.95;
constexpr double kLeastScale = 0.002;     // of times that agree exactly
constexpr double kHalfInterval = 1.96;    // standard deviations to either side of a 95 % interval
constexpr double kDerivativeStep = 1e-5;  // of a logarithm
constexpr double kLongestStep = 1;
constexpr double kStartingLoss = 0.2;
constexpr double kSettled = 1e-4;  // relative change of scale and cost that ends a descent
constexpr int kRounds = 30, kStepsPerRound = 4, kTries = 12;

/// One descent from one start; Levenberg-Marquardt steps inside rounds that renew the scale of the errors.
class Descent {
 public:
  Descent(const FitProblem& problem, std::span<const std::size_t> points) : problem_(problem), points_(points) {}

  void run(VectorXd start) {
    theta_ = within_bounds(std::move(start));
    errors_ = errors(theta_);
    for (int round = 0; round < kRounds; ++round) {
      const double scale_before = scale_, cost_before = cost(theta_, errors_);
      // A start may be far off: the first rounds take every sample seriously.
      scale_ = std::max(robust_scale(), 0.3 * std::pow(0.5, round) - 0.01);
      for (int step = 0; step < kStepsPerRound && improve(); ++step) {}
      const bool is_settled = std::abs(scale_ - scale_before) < kSettled * scale_;
      if (is_settled && cost_before - cost(theta_, errors_) < kSettled * cost_before) break;
    }
  }

  const VectorXd& theta() const { return theta_; }
  double scale() const { return scale_; }
  /// Negative log likelihood, with the scale as estimated.
  double likelihood() const {
    return cost(theta_, errors_) / (scale_ * scale_) + double(points_.size()) * std::log(scale_);
  }

  /// Standard deviation of each logarithm: prior and samples together, the scale with the fitted number taken off the
  /// samples.
  VectorXd deviations() const {
    const MatrixXd covariance = normal_matrix(jacobian()).inverse();
    const auto spare = std::max(1.0, double(points_.size()) - double(theta_.size()));
    const double inflation = double(points_.size()) / spare / kEfficiency;
    return (covariance.diagonal() * (scale_ * scale_ * inflation)).cwiseSqrt();
  }

 private:
  std::vector<double> values(const VectorXd& theta) const {
    std::vector<double> out(std::size_t(theta.size()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::exp(theta[Eigen::Index(i)]);
    return out;
  }

  VectorXd within_bounds(VectorXd theta) const {
    for (Eigen::Index j = 0; j < theta.size(); ++j) theta[j] = std::min(theta[j], std::log(prior(j).most));
    return theta;
  }

  double trust(std::size_t point) const {  // noise of its own makes a sample count less
    if (problem_.noise.empty()) return 1;
    const double own = problem_.noise[point] / std::max(scale_, kLeastScale);
    return 1 / (1 + own * own);
  }

  VectorXd errors(const VectorXd& theta) const {
    const std::vector<double> times = problem_.model(values(theta));
    VectorXd out(Eigen::Index(points_.size()));
    for (std::size_t i = 0; i < points_.size(); ++i)
      out[Eigen::Index(i)] = std::log(times[points_[i]] / problem_.measured[points_[i]]);
    return out;
  }

  double robust_scale() const {
    // Fitted parameters make errors small: what is left has fewer degrees of freedom than there are samples.
    const auto count = double(points_.size());
    const double spare = std::max(1.0, count - double(theta_.size())) / count;
    return std::max(kLeastScale, robust_deviation({errors_.data(), points_.size()}) / std::sqrt(std::max(spare, 0.25)));
  }

  double weight(double error) const {
    const double u = error / (kTukey * scale_);
    return std::abs(u) < 1 ? (1 - u * u) * (1 - u * u) : 0;
  }

  double cost(const VectorXd& theta, const VectorXd& errors) const {
    const double reach = kTukey * scale_;
    double sum = 0;
    for (Eigen::Index i = 0; i < errors.size(); ++i)
      sum += trust(points_[std::size_t(i)]) * tukey_cost(errors[i], reach);
    for (Eigen::Index j = 0; j < theta.size(); ++j) sum += 0.5 * std::pow(scale_ * surprise(theta, j), 2);
    return sum;
  }

  const ParameterPrior& prior(Eigen::Index j) const { return problem_.parameters[std::size_t(j)]; }
  double surprise(const VectorXd& theta, Eigen::Index j) const {
    return (theta[j] - std::log(prior(j).usual)) / prior(j).spread;
  }

  MatrixXd jacobian() const {
    MatrixXd out(errors_.size(), theta_.size());
    for (Eigen::Index j = 0; j < theta_.size(); ++j) {
      VectorXd moved = theta_;
      moved[j] -= kDerivativeStep;  // downwards, away from upper bounds
      out.col(j) = (errors_ - errors(moved)) / kDerivativeStep;
    }
    return out;
  }

  VectorXd weights() const {
    VectorXd out(errors_.size());
    for (Eigen::Index i = 0; i < out.size(); ++i) out[i] = weight(errors_[i]) * trust(points_[std::size_t(i)]);
    return out;
  }

  MatrixXd normal_matrix(const MatrixXd& j) const {
    MatrixXd out = j.transpose() * weights().asDiagonal() * j;
    for (Eigen::Index i = 0; i < out.rows(); ++i) out(i, i) += std::pow(scale_ / prior(i).spread, 2);
    return out;
  }

  /// One accepted step; false when none lowers the cost any more.
  bool improve() {
    const MatrixXd j = jacobian(), normal = normal_matrix(j);
    VectorXd gradient = j.transpose() * weights().cwiseProduct(errors_);
    for (Eigen::Index i = 0; i < gradient.size(); ++i)
      gradient[i] += scale_ * scale_ * surprise(theta_, i) / prior(i).spread;
    const double before = cost(theta_, errors_);
    for (int attempt = 0; attempt < kTries; ++attempt, damping_ *= 4) {
      MatrixXd damped = normal;
      damped.diagonal() *= 1 + damping_;
      VectorXd step = -damped.ldlt().solve(gradient);
      step *= std::min(1.0, kLongestStep / step.cwiseAbs().maxCoeff());
      const VectorXd moved = within_bounds(theta_ + step), moved_errors = errors(moved);
      const double after = cost(moved, moved_errors);
      if (!std::isfinite(after) || after >= before) continue;
      theta_ = moved;
      errors_ = moved_errors;
      damping_ = std::max(1e-9, damping_ / 5);
      return before - after > 1e-10 * before;
    }
    damping_ = 1e-2;
    return false;
  }

  const FitProblem& problem_;
  std::span<const std::size_t> points_;
  VectorXd theta_, errors_;
  double scale_ = 1, damping_ = 1e-2;
};

/// The usual values, and two others to either side of them, each parameter a different way.
VectorXd start(const FitProblem& problem, int number, const FitSolution* near) {
  VectorXd theta(Eigen::Index(problem.parameters.size()));
  if (near) {
    for (Eigen::Index j = 0; j < theta.size(); ++j) theta[j] = std::log(near->parameters[std::size_t(j)].value);
    return theta;
  }
  for (Eigen::Index j = 0; j < theta.size(); ++j) {
    const ParameterPrior& prior = problem.parameters[std::size_t(j)];
    const double shift = number == 0 ? 0 : (double((j * 7 + number * 3) % 5) - 2) * 0.4;
    // Near nothing a loss has no slope to climb: it is first taken for real.
    const double from = prior.may_be_none && number < 2 ? kStartingLoss : prior.usual;
    theta[j] = std::log(from) + shift * std::min(1.0, prior.spread);
  }
  return theta;
}

FitSolution solution(const FitProblem& problem, const Descent& descent) {
  FitSolution out{.scale = descent.scale(), .cost = descent.likelihood()};
  const VectorXd deviations = descent.deviations();
  for (Eigen::Index j = 0; j < deviations.size(); ++j) {
    const ParameterPrior& prior = problem.parameters[std::size_t(j)];
    const double wide = kHalfInterval * deviations[j];
    const auto at = [&](double theta) { return std::min(std::exp(theta), prior.most); };
    Fitted fitted{at(descent.theta()[j]), at(descent.theta()[j] - wide), at(descent.theta()[j] + wide)};
    if (prior.may_be_none && fitted.low < prior.usual) fitted.low = 0;
    out.parameters.push_back(fitted);
  }
  const std::vector<double> times = problem.model(out.values());
  for (std::size_t i = 0; i < times.size(); ++i) out.errors.push_back(std::log(times[i] / problem.measured[i]));
  return out;
}

}  // namespace

double tukey_cost(double error, double reach) {
  const double rest = 1 - std::min(1.0, std::pow(error / reach, 2));
  return reach * reach / 6 * (1 - rest * rest * rest);
}

std::vector<std::size_t> all_points(std::size_t count) {
  std::vector<std::size_t> points(count);
  std::iota(points.begin(), points.end(), std::size_t(0));
  return points;
}

std::vector<double> FitSolution::values() const {
  std::vector<double> out;
  for (const Fitted& parameter : parameters) out.push_back(parameter.value);
  return out;
}

FitSolution fit_robustly(const FitProblem& problem, std::span<const std::size_t> points, const FitSolution* near) {
  GPUPLAN_CHECK(!points.empty(), "a fit without points");
  const int num_starts = near ? 1 : 3;
  std::optional<Descent> best;
  for (int number = 0; number < num_starts; ++number) {
    Descent other(problem, points);
    other.run(start(problem, number, near));
    if (!best || other.likelihood() < best->likelihood()) best.emplace(std::move(other));
  }
  return solution(problem, *best);
}

FitSolution fit_robustly(const FitProblem& problem, const FitSolution* near) {
  return fit_robustly(problem, all_points(problem.measured.size()), near);
}

}  // namespace gpuplan
