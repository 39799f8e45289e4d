#include "validate/speed_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "base/statistics.h"
#include "validate/comparison.h"

namespace gpuplan {
namespace {

constexpr double kClearDifference = 1.10;  // of two measurements: below it their order is noise

bool counts(const PointResult& r) {
  return r.status == PointStatus::Scored && r.point->kind == PointKind::Speed && r.own;
}

/// Pairs of the points in `part`, which share source and hardware.
void count_pairs(const std::vector<const PointResult*>& part, SpeedSummary& summary) {
  for (std::size_t i = 0; i < part.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const Throughput &a = *part[i]->throughput, &b = *part[j]->throughput;
      if (std::abs(std::log(a.measured / b.measured)) < std::log(kClearDifference)) continue;
      const bool is_right = (a.measured > b.measured) == (a.predicted > b.predicted);
      const auto count = [&](PairOrder& order) {
        ++order.pairs;
        order.right += is_right;
      };
      count(summary.order);
      if (part[i]->point->model == part[j]->point->model) count(summary.order_same_model);
    }
}

}  // namespace

std::string hardware_of(const Point& p) {
  const PointLink link = p.link.value_or(PointLink{});
  return fmt::format("{} x {}, {} per node, {} {} {}, {}", p.num_gpus, p.gpu, p.gpus_per_node.value_or(0), link.kind,
                     link.generation.value_or(0), link.has_p2p ? (*link.has_p2p ? "p2p" : "no p2p") : "", p.network);
}

SpeedSummary summarise_speed(const std::vector<PointResult>& results) {
  SpeedSummary s;
  std::vector<double> errors, sizes;
  std::map<std::string, std::vector<double>> by_source;
  std::map<std::string, std::vector<const PointResult*>> by_hardware;
  for (const PointResult& r : results) {
    if (r.point->kind != PointKind::Speed || r.status == PointStatus::Skipped) continue;
    ++s.scoreable;
    if (!counts(r)) continue;
    errors.push_back(log_time_error(*r.own));
    sizes.push_back(std::abs(errors.back()));
    by_source[r.point->source].push_back(sizes.back());
    by_hardware[r.point->source + "\n" + hardware_of(*r.point)].push_back(&r);
  }
  const auto quantile = [](const std::vector<double>& values, double share) {
    return weighted_quantile(values, std::vector<double>(values.size(), 1.0), share);
  };
  s.represented = errors.size();
  s.num_sources = by_source.size();
  if (errors.empty()) return s;
  s.median = quantile(sizes, 0.5);
  s.p90 = quantile(sizes, 0.9);
  s.bias = quantile(errors, 0.5);
  for (const auto& [source, list] : by_source)
    s.mean_of_source_medians += quantile(list, 0.5) / double(by_source.size());
  for (const auto& [hardware, part] : by_hardware) count_pairs(part, s);
  return s;
}

namespace {

/// Adapters are judged together too, and where several GPUs share the work; beside the strategies, all rows that divide
/// the model.
constexpr const char* kAdapters = "lora and qlora";
constexpr const char* kSharedAdapters = "lora and qlora, several GPUs";
constexpr const char* kDivided = "with tp, cp, ep or pp";

bool trains_adapters(const Point& point) { return point.method == "lora" || point.method == "qlora"; }

}  // namespace

std::vector<SpeedRow> speed_by(const std::vector<PointResult>& results, Grouping grouping) {
  std::map<std::string, std::vector<PointResult>> parts;
  for (const PointResult& r : results)
    if (r.point->kind == PointKind::Speed && r.status != PointStatus::Skipped) {
      parts[key_of(r, grouping)].push_back(r);
      if (grouping == Grouping::Strategy && !r.point->degrees.empty()) parts[kDivided].push_back(r);
      if (grouping != Grouping::Method || !trains_adapters(*r.point)) continue;
      parts[kAdapters].push_back(r);
      if (r.point->num_gpus > 1) parts[kSharedAdapters].push_back(r);
    }
  std::vector<SpeedRow> rows;
  for (const auto& [key, part] : parts) rows.push_back({key, summarise_speed(part)});
  return rows;
}

namespace {

constexpr double kClose = 0.05;

/// Cost of a setting: the smaller the better.
struct Cost {
  const PointResult* result;
  double measured, predicted;
};

std::string job_of(const Point& p) {
  std::string job = fmt::format("{}, {}, {} tokens, {}", p.model, p.method, p.seq_len.value_or(0), hardware_of(p));
  if (p.kind == PointKind::Memory)
    job += fmt::format(", micro batch {}, {}", p.micro_batch.value_or(0), p.memory.metric);
  return job;
}

Cost cost_of(const PointResult& r) {
  if (r.point->kind == PointKind::Memory) return {&r, r.own->measured, r.own->predicted};
  return {&r, 1 / r.throughput->measured, 1 / r.throughput->predicted};
}

Pick make_pick(const std::vector<Cost>& costs) {
  const auto best = std::min_element(costs.begin(), costs.end(),
                                     [](const Cost& a, const Cost& b) { return a.measured < b.measured; });
  const auto picked = std::min_element(costs.begin(), costs.end(),
                                       [](const Cost& a, const Cost& b) { return a.predicted < b.predicted; });
  const Point& point = *best->result->point;
  return {.kind = point.kind,
          .source = point.source,
          .job = job_of(point),
          .picked = picked->result->point->id,
          .best = best->result->point->id,
          .num_settings = costs.size(),
          .regret = picked->measured / best->measured - 1};
}

bool all_alike(const std::vector<Cost>& costs) {
  return std::all_of(costs.begin(), costs.end(), [&](const Cost& c) { return c.measured == costs.front().measured; });
}

}  // namespace

PickSummary judge_picks(const std::vector<PointResult>& results, PointKind kind) {
  std::map<std::pair<std::string, std::string>, std::vector<Cost>> jobs;
  for (const PointResult& r : results)
    if (r.status == PointStatus::Scored && r.point->kind == kind && r.own)
      jobs[{r.point->source, job_of(*r.point)}].push_back(cost_of(r));
  PickSummary s;
  for (const auto& [job, costs] : jobs) {
    if (costs.size() < 2 || all_alike(costs)) continue;
    const Pick pick = make_pick(costs);
    s.num_best += pick.is_best();
    s.num_close += pick.regret <= kClose;
    s.mean_regret += pick.regret;
    s.worst_regret = std::max(s.worst_regret, pick.regret);
    s.picks.push_back(pick);
  }
  if (!s.picks.empty()) s.mean_regret /= double(s.picks.size());
  return s;
}

namespace {

/// Sequences per optimizer step as stated, else of what is stated of them.
std::int64_t global_batch_of(const Point& p) {
  return p.global_batch.value_or(p.micro_batch.value_or(0) * p.grad_accum.value_or(1) * p.num_gpus);
}

}  // namespace

PlanPicks judge_plans(const std::vector<PointResult>& results) {
  constexpr double kNear = 0.10;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::vector<Cost>> jobs;
  for (const PointResult& r : results)
    if (r.status == PointStatus::Scored && r.point->kind == PointKind::Speed && r.own)
      jobs[{r.point->source, job_of(*r.point), global_batch_of(*r.point)}].push_back(cost_of(r));
  PlanPicks out;
  std::vector<double> regrets;
  for (const auto& [job, costs] : jobs) {
    const auto [least, most] = std::minmax_element(
        costs.begin(), costs.end(), [](const Cost& a, const Cost& b) { return a.measured < b.measured; });
    if (costs.size() < 2 || most->measured <= least->measured * (1 + kContested)) continue;
    regrets.push_back(make_pick(costs).regret);
    out.num_close += regrets.back() <= kNear;
  }
  out.num_jobs = regrets.size();
  if (!regrets.empty()) out.median_regret = weighted_quantile(regrets, std::vector<double>(regrets.size(), 1.0), 0.5);
  return out;
}

}  // namespace gpuplan
