#include "validate/comparison.h"

#include <array>
#include <cmath>

#include "planner/job_metrics.h"

namespace gpuplan {
namespace {

struct Context {
  const Point& point;
  const StrategyEstimate& estimate;
  const Job& job;
  const AliasTable& aliases;

  double step() const { return estimate.time.step.value; }
  double tokens() const {
    return point.speed.tokens_per_step.value_or(double(estimate.global_batch) * double(job.recipe().seq_len));
  }
  double samples() const { return double(point.global_batch.value_or(estimate.global_batch)); }
  double num_gpus() const { return double(point.num_gpus); }
};

/// FLOPs per second and GPU as the source counts them: those of the model, or those that run, recompute included.
std::optional<double> tflops(const Context& c) {
  const std::string& kind = alias_or_self(c.aliases.flops_kinds, c.point.speed.flops_kind);
  if (kind == "executed") return c.estimate.time.flops / c.step() / 1e12;
  if (kind == "model")
    return model_flops(c.job, c.estimate.global_batch, c.job.recipe().seq_len) / c.step() / c.num_gpus() / 1e12;
  return std::nullopt;
}

/// The source's number of steps is its total over its time of one step; its FLOPs are its total times its rate.
std::optional<double> total_time(const Context& c) {
  const SpeedFigures& measured = c.point.speed;
  if (measured.step_seconds) return measured.value / *measured.step_seconds * c.step();
  const auto rate = tflops(c);
  if (!rate || !measured.tflops_per_gpu) return std::nullopt;
  return measured.value * *measured.tflops_per_gpu / *rate;
}

struct Metric {
  std::string_view name;
  bool is_rate;  // more is faster
  std::optional<double> (*predict)(const Context&);
};
constexpr std::array kMetrics{
    Metric{"step_time_s", false, [](const Context& c) { return std::optional(c.step()); }},
    Metric{"tokens_per_s", true, [](const Context& c) { return std::optional(c.tokens() / c.step()); }},
    Metric{"tokens_per_s_per_gpu", true,
           [](const Context& c) { return std::optional(c.tokens() / c.step() / c.num_gpus()); }},
    Metric{"samples_per_s", true, [](const Context& c) { return std::optional(c.samples() / c.step()); }},
    Metric{"total_time_s", false, total_time},
    Metric{"tflops_per_gpu", true, tflops},
    Metric{"mfu", true, [](const Context& c) { return std::optional(c.estimate.mfu); }}};

const Metric* find_metric(std::string_view name) {
  for (const Metric& metric : kMetrics)
    if (metric.name == name) return &metric;
  return nullptr;
}

}  // namespace

std::optional<Comparison> compare_speed(const Point& point, const StrategyEstimate& estimate, const Job& job,
                                        const AliasTable& aliases) {
  const Metric* metric = find_metric(point.speed.metric);
  if (!metric) return std::nullopt;
  const auto predicted = metric->predict({point, estimate, job, aliases});
  if (!predicted) return std::nullopt;
  return Comparison{point.speed.metric, point.speed.value, *predicted};
}

bool is_rate(const Comparison& c) {
  const Metric* metric = find_metric(c.metric);
  return metric && metric->is_rate;
}

double log_time_error(const Comparison& c) {
  const double ratio = std::log(c.predicted / c.measured);
  return is_rate(c) ? -ratio : ratio;
}

}  // namespace gpuplan
