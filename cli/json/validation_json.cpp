#include "cli/json/validation_json.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json comparison_json(const std::optional<Comparison>& c) {
  if (!c) return {};
  return {{"metric", c->metric}, {"measured", c->measured}, {"predicted", c->predicted}, {"error", c->error()}};
}

Json verdict_json(const PointResult& r) {
  const auto fits = predicted_fit(r);
  return fits ? Json(*fits ? "fits" : "oom") : Json();
}

Json in_gib(const std::optional<MemoryTiers>& tiers, Bytes MemoryTiers::*tier) {
  return tiers ? Json(double(((*tiers).*tier).count) / 0x1p30) : Json();
}

Json point_json(const PointResult& r) {
  const Point& p = *r.point;
  return {{"id", p.id},
          {"status", to_string(r.status)},
          {"reason", or_null(r.reason)},
          {"source", p.source},
          {"method", p.method},
          {"strategy", or_null(r.strategy)},
          {"outcome", p.memory.ran_out ? "oom" : "ok"},
          {"metric", p.memory.metric},
          {"measured", r.own ? Json(r.own->measured) : p.memory.gib ? Json(*p.memory.gib) : Json()},
          {"predicted", r.own ? Json(r.own->predicted) : Json()},
          {"error", r.own ? Json(r.own->error()) : Json()},
          {"verdict", verdict_json(r)},
          {"predicted_process_gib", in_gib(r.tiers, &MemoryTiers::process)},
          {"needed_gib", in_gib(r.tiers, &MemoryTiers::needed)},
          {"capacity_gib", in_gib(r.tiers, &MemoryTiers::capacity)},
          {"allocated", comparison_json(r.allocated)},
          {"process", comparison_json(r.process)}};
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
  return {{"ok_fits", v.ok_fits},   {"ok_oom", v.ok_oom},     {"oom_oom", v.oom_oom},
          {"oom_fits", v.oom_fits}, {"left_out", v.left_out}, {"false_alarms", v.false_alarms},
          {"dangerous", v.dangerous}};
}

Json memory_json(const MemorySummary& s) {
  return {{"scoreable", s.scoreable},
          {"represented", s.represented},
          {"own", errors_json(s.own)},
          {"allocated", errors_json(s.allocated)},
          {"process", errors_json(s.process)},
          {"verdicts", verdicts_json(s.verdicts)}};
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

}  // namespace

Json validation_json(const ValidationAnswer& answer) {
  Json points = Json::array();
  for (const PointResult& r : answer.results) points.push_back(point_json(r));
  Json memory = memory_json(summarise_memory(answer.results));
  memory["by_method"] = memory_by_json(answer.results, Grouping::Method);
  memory["by_strategy"] = memory_by_json(answer.results, Grouping::Strategy);
  memory["by_source"] = memory_by_json(answer.results, Grouping::Source);
  const Json summary{{"points", answer.points.size()},
                     {"memory", memory},
                     {"unsupported", reasons_json(reasons_of(answer.results, PointStatus::Unsupported))}};
  return {{"gpuplan_version", GPUPLAN_VERSION}, {"points", points}, {"summary", summary}};
}

}  // namespace gpuplan
