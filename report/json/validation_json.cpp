#include "report/json/answers_json.h"

#include "planner/accuracy.h"
#include "report/json/json_values.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

Json comparison_json(const std::optional<Comparison>& c) {
  if (!c) return {};
  return {{"metric", c->metric}, {"measured", c->measured}, {"predicted", c->predicted}, {"error", c->error()}};
}

Json verdict_json(const PointResult& r) {
  const auto fits = predicted_fit(r);
  return fits ? Json(*fits == Fit::No ? "oom" : *fits == Fit::Tight ? "tight" : "fits") : Json();
}

Json in_gib(const std::optional<MemoryTiers>& tiers, Bytes MemoryTiers::*tier) {
  return tiers ? Json(double(((*tiers).*tier).count) / 0x1p30) : Json();
}

/// What the source printed; null for a run that ran out of memory.
Json measured_json(const Point& p) {
  if (p.kind == PointKind::Speed) return p.speed.value;
  return p.memory.gib ? Json(*p.memory.gib) : Json();
}

Figure figure_of(const PointResult& r) {
  if (r.point->kind == PointKind::Speed) return Figure::StepTime;
  return r.own->tier == MemoryTier::Tensors ? Figure::Tensors : Figure::Process;
}

/// The ends of the shipped range around the prediction, in its unit: {low, high}; nulls where there is none.
std::pair<Json, Json> ends_json(const PointResult& r) {
  if (!r.own) return {};
  const auto range = default_accuracy().range(figure_of(r), r.kind);
  if (!range) return {};
  const double predicted = r.own->predicted;
  if (r.point->kind == PointKind::Speed && is_rate(*r.own)) return {predicted / range->high, predicted / range->low};
  return {predicted * range->low, predicted * range->high};
}

Json point_json(const PointResult& r) {
  const Point& p = *r.point;
  const auto [low, high] = ends_json(r);
  const bool is_memory = p.kind == PointKind::Memory;
  return {{"id", p.id},
          {"kind", is_memory ? "memory" : "speed"},
          {"status", to_string(r.status)},
          {"reason", or_null(r.reason)},
          {"source", p.source},
          {"method", p.method},
          {"heading", or_null(r.heading)},
          {"strategy", or_null(r.strategy)},
          {"outcome", p.memory.ran_out ? "oom" : "ok"},
          {"metric", is_memory ? p.memory.metric : p.speed.metric},
          {"measured", measured_json(p)},
          {"predicted", r.own ? Json(r.own->predicted) : Json()},
          {"low", low},
          {"high", high},
          {"error", r.own ? Json(r.own->error()) : Json()},
          {"verdict", verdict_json(r)},
          {"predicted_process_gib", in_gib(r.tiers, &MemoryTiers::process)},
          {"needed_gib", in_gib(r.tiers, &MemoryTiers::needed)},
          {"capacity_gib", in_gib(r.tiers, &MemoryTiers::capacity)},
          {"allocated", comparison_json(r.allocated)},
          {"process", comparison_json(r.process)},
          {"boundary", comparison_json(r.boundary)}};
}

Json errors_json(const ErrorSummary& s) {
  if (s.num_points == 0) return {{"points", 0}};
  return {{"points", s.num_points},
          {"sources", s.num_sources},
          {"median", s.median},
          {"p90", s.p90},
          {"worst", s.worst},
          {"median_signed", s.median_signed},
          {"pooled_median", s.pooled_median},
          {"pooled_p90", s.pooled_p90},
          {"pooled_median_signed", s.pooled_median_signed}};
}

Json verdicts_json(const VerdictCounts& v) {
  return {{"ok_fits", v.ok_fits},   {"ok_tight", v.ok_tight},         {"ok_oom", v.ok_oom},
          {"oom_oom", v.oom_oom},   {"oom_tight", v.oom_tight},       {"oom_fits", v.oom_fits},
          {"left_out", v.left_out}, {"false_alarms", v.false_alarms}, {"dangerous", v.dangerous}};
}

Json memory_json(const MemorySummary& s) {
  return {{"scoreable", s.scoreable},
          {"represented", s.represented},
          {"own", errors_json(s.own)},
          {"allocated", errors_json(s.allocated)},
          {"process", errors_json(s.process)},
          {"verdicts", verdicts_json(s.verdicts)},
          {"boundaries", errors_json(s.boundaries)}};
}

Json memory_by_json(const std::vector<PointResult>& results, Grouping grouping) {
  Json out = Json::object();
  for (const MemoryRow& row : memory_by(results, grouping)) out[row.key] = memory_json(row.summary);
  return out;
}

Json reasons_json(const std::vector<ReasonCount>& reasons) {
  Json out = Json::array();
  for (const ReasonCount& r : reasons) out.push_back({{"reason", r.reason}, {"points", r.ids.size()}, {"ids", r.ids}});
  return out;
}

Json order_json(const PairOrder& order) {
  return {{"right", order.right}, {"pairs", order.pairs}, {"share", order.pairs ? Json(order.share()) : Json()}};
}

Json speed_json(const SpeedSummary& s) {
  Json out{{"scoreable", s.scoreable}, {"represented", s.represented}};
  if (s.represented == 0) return out;
  out.update({{"sources", s.num_sources},
              {"median", s.median},
              {"p90", s.p90},
              {"median_signed", s.bias},
              {"mean_of_source_medians", s.mean_of_source_medians},
              {"order", order_json(s.order)},
              {"order_same_model", order_json(s.order_same_model)}});
  return out;
}

Json speed_by_json(const std::vector<PointResult>& results, Grouping grouping) {
  Json out = Json::object();
  for (const SpeedRow& row : speed_by(results, grouping)) out[row.key] = speed_json(row.summary);
  return out;
}

Json picks_json(const PickSummary& s) {
  Json missed = Json::array();
  for (const Pick& p : s.picks)
    if (!p.is_best())
      missed.push_back({{"source", p.source},
                        {"job", p.job},
                        {"settings", p.num_settings},
                        {"picked", p.picked},
                        {"best", p.best},
                        {"regret", p.regret}});
  return {{"comparisons", s.picks.size()},   {"best", s.num_best},
          {"within_5_percent", s.num_close}, {"mean_regret", s.mean_regret},
          {"worst_regret", s.worst_regret},  {"missed", missed}};
}

Json constants_json(const std::vector<EmpiricalConstant>& constants) {
  Json list = Json::array();
  for (const EmpiricalConstant& c : constants)
    list.push_back({{"name", c.name},
                    {"value", c.value},
                    {"unit", c.unit},
                    {"kind", c.kind},
                    {"of", c.use == ConstantUse::Memory ? "memory" : "time"},
                    {"points", c.ablation ? Json(c.ablation->num_points) : Json()},
                    {"median_without", c.ablation ? Json(c.ablation->median) : Json()},
                    {"p90_without", c.ablation ? Json(c.ablation->p90) : Json()},
                    {"source", c.source}});
  return {{"count", constants.size()}, {"constants", list}};
}

Json memory_by_heading_json(const std::vector<PointResult>& results) {
  Json out = Json::object();
  for (const MemoryRow& row : memory_by_heading(results)) out[row.key] = memory_json(row.summary);
  return out;
}

template <class Rows>
Json by_every_grouping(const std::vector<PointResult>& results, Json summary, Rows rows) {
  summary["by_method"] = rows(results, Grouping::Method);
  summary["by_strategy"] = rows(results, Grouping::Strategy);
  summary["by_source"] = rows(results, Grouping::Source);
  return summary;
}

Json cross_validated_json(const ValidationAnswer& answer) {
  return {{"command", answer.cross_validation.command},
          {"date", answer.cross_validation.date},
          {"memory", by_every_grouping(answer.not_seen, memory_json(answer.memory_not_seen), memory_by_json)},
          {"speed", by_every_grouping(answer.not_seen, speed_json(answer.speed_not_seen), speed_by_json)}};
}

}  // namespace

Json validation_json(const ValidationAnswer& answer) {
  Json points = Json::array();
  for (const PointResult& r : answer.results) points.push_back(point_json(r));
  Json summary{{"points", answer.points.size()},
               {"memory", by_every_grouping(answer.results, memory_json(answer.memory), memory_by_json)},
               {"speed", by_every_grouping(answer.results, speed_json(answer.speed), speed_by_json)},
               {"cross_validated", cross_validated_json(answer)},
               {"ranges", to_json(answer.ranges).at("figures")},
               {"empirical_constants", constants_json(answer.constants)},
               {"unsupported", reasons_json(reasons_of(answer.results, PointStatus::Unsupported))},
               {"skipped", reasons_json(reasons_of(answer.results, PointStatus::Skipped))}};
  summary["memory"]["by_heading"] = memory_by_heading_json(answer.results);
  if (answer.picks) {
    const PlanPicks plans = judge_plans(answer.results);
    summary["picks"] = {{"memory", picks_json((*answer.picks)[0])}, {"speed", picks_json((*answer.picks)[1])}};
    summary["picks"]["plans"] = {
        {"jobs", plans.num_jobs}, {"within_10_percent", plans.num_close}, {"median_regret", plans.median_regret}};
  }
  return {{"gpuplan_version", GPUPLAN_VERSION}, {"points", points}, {"summary", summary}};
}

}  // namespace gpuplan
