#include "validate/picks.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "validate/speed_report.h"

namespace gpuplan {
namespace {

constexpr double kClose = 0.05;

/// What a setting costs: the smaller the better.
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

}  // namespace gpuplan
