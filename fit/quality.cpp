#include "fit/quality.h"

#include <algorithm>
#include <cmath>

namespace gpuplan {
namespace {

std::vector<double> sizes_of(std::span<const double> errors) {
  std::vector<double> out;
  for (const double error : errors) out.push_back(std::abs(error));
  return out;
}

}  // namespace

bool is_usable(const Sample& s, ProbeFamily family) {
  const bool may_be_zero = family == ProbeFamily::Overhead;
  return s.probe.family == family && s.is_ok() && std::isfinite(s.median) &&
         (s.median > 0 || (may_be_zero && s.median == 0));
}

double noise_of(const Sample& s) {
  constexpr double kWidth = 2 * 1.96;  // of a 95 % interval, in standard deviations
  return s.low > 0 && s.high > s.low ? std::log(s.high / s.low) / kWidth : 0;
}

void append(HeldOutErrors& held_out, const std::string& what, std::span<const double> errors) {
  std::vector<double>& own = held_out[what];
  own.insert(own.end(), errors.begin(), errors.end());
}

std::vector<double> held_out_errors(std::span<const std::size_t> group,
                                    const std::function<ErrorOf(std::span<const std::size_t>)>& refit) {
  std::vector<double> errors;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<std::size_t> seen, kept;
    for (std::size_t i = 0; i < group.size(); ++i) (group[i] % kFolds == fold ? kept : seen).push_back(i);
    if (kept.empty() || seen.empty()) continue;
    const ErrorOf error = refit(seen);
    for (const std::size_t point : kept) errors.push_back(error(point));
  }
  return errors;
}

FitQuality fit_quality(std::span<const double> errors, std::span<const double> held_out, double scale) {
  const std::vector<double> in = sizes_of(errors), out = sizes_of(held_out);
  const auto outliers = std::count_if(in.begin(), in.end(), [&](double error) { return error > kTukey * scale; });
  return {.num_points = std::int64_t(in.size()),
          .num_outliers = outliers,
          .median_error = quantile(in, 0.5),
          .p90_error = quantile(in, 0.9),
          .held_out_median = quantile(out, 0.5),
          .held_out_p90 = quantile(out, 0.9)};
}

FitQuality cross_validate(const FitProblem& problem, const FitSolution& fitted, std::span<const std::size_t> group) {
  const auto refit = [&](std::span<const std::size_t> points) -> ErrorOf {
    return [errors = fit_robustly(problem, points, &fitted).errors](std::size_t point) { return errors[point]; };
  };
  return fit_quality(fitted.errors, held_out_errors(group, refit), fitted.scale);
}

}  // namespace gpuplan
