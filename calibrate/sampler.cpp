#include "calibrate/sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/statistics.h"

namespace gpuplan {
namespace {

std::int64_t count_outliers(std::span<const double> runs, double median) {
  std::vector<double> deviations(runs.size());
  std::transform(runs.begin(), runs.end(), deviations.begin(), [&](double run) { return run - median; });
  const double limit = 3 * robust_deviation(deviations);
  return std::count_if(deviations.begin(), deviations.end(),
                       [&](double deviation) { return std::abs(deviation) > limit; });
}

bool is_narrow(const RunStatistics& statistics, const SamplingRule& rule) {
  return statistics.high - statistics.low <= 2 * rule.relative_interval * statistics.median;
}

/// Slow calls may take three times as long, to have an interval at all.
bool has_time(const SamplingRule& rule, std::int64_t num_runs, Seconds spent) {
  if (num_runs == 0 || spent < rule.most_time) return true;
  return num_runs < SamplingRule::kLeastForInterval && spent < 3 * rule.most_time;
}

/// Number of calls in one timing, found by timing more and more: a first call is slow, and a clock is coarse. A single
/// call has no lead-in: between two of them threads fall asleep, and to wake them takes up to 0.5 ms on a virtual
/// machine.
std::int64_t calls_per_run(const SamplingRule& rule, const std::function<Seconds(std::int64_t)>& time_calls) {
  Seconds time;
  for (std::int64_t i = 0; i < std::max<std::int64_t>(rule.num_warmups, 1); ++i) time = time_calls(1);
  if (time >= rule.alone) return 1;
  std::int64_t num_calls = 2;
  time = time_calls(num_calls);
  constexpr double kMostGrowth = 64;
  while (time < rule.least_batch) {
    const double growth = time.value > 0 ? rule.least_batch / time : kMostGrowth;
    if (growth < 1.1) break;
    num_calls = std::int64_t(std::ceil(double(num_calls) * std::min(growth, kMostGrowth)));
    if (num_calls >= SamplingRule::kMostCalls) return SamplingRule::kMostCalls;
    time = time_calls(num_calls);
  }
  return num_calls;
}

}  // namespace

SamplingRule sampling_rule(bool is_quick) {
  if (!is_quick) return {};
  return {.relative_interval = 0.05, .num_warmups = 1, .least_runs = 6, .most_runs = 40, .most_time{0.15}};
}

SamplingRule one_of_many(SamplingRule rule) {
  rule.relative_interval = std::max(rule.relative_interval, 0.03);
  rule.least_runs = std::min(rule.least_runs, SamplingRule::kLeastForInterval);
  rule.most_runs = std::min<std::int64_t>(rule.most_runs, 60);
  rule.most_time = std::min(rule.most_time, Seconds{0.25});
  return rule;
}

RunStatistics summarise(std::span<const double> runs) {
  GPUPLAN_CHECK(!runs.empty(), "statistics of nothing");
  const MedianInterval middle = median_interval({runs.begin(), runs.end()});
  return {.median = middle.median,
          .low = middle.low,
          .high = middle.high,
          .num_outliers = count_outliers(runs, middle.median)};
}

SampledTime sample_time(const SamplingRule& rule, const std::function<Seconds(std::int64_t num_calls)>& time_calls) {
  const std::int64_t num_calls = calls_per_run(rule, time_calls);
  std::vector<double> runs;
  Seconds spent;
  SampledTime result;
  while (!result.is_converged && std::ssize(runs) < rule.most_runs && has_time(rule, std::ssize(runs), spent)) {
    const Seconds time = time_calls(num_calls);
    spent += time;
    runs.push_back(time.value / double(num_calls));
    if (std::ssize(runs) < rule.least_runs) continue;
    result.statistics = summarise(runs);
    result.is_converged = std::ssize(runs) >= SamplingRule::kLeastForInterval && is_narrow(result.statistics, rule);
  }
  result.statistics = summarise(runs);
  result.num_runs = std::ssize(runs);
  return result;
}

}  // namespace gpuplan
