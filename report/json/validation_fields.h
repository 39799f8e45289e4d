// The fields of the answer of `gpuplan validate`, listed once: report/json/estimate_fields.h. Errors are shares:
// predicted / measured - 1.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/archive.h"
#include "planner/accuracy_fields.h"
#include "report/answers.h"
#include "report/json/common_fields.h"

namespace gpuplan {

template <class Archive>
void list_fields(Archive& f, const Comparison& c) {
  f("metric", c.metric);
  f("measured", c.measured);
  f("predicted", c.predicted);
  f("error", finite_or_null(c.error()), kAnyNumber);
}

inline std::optional<std::string> verdict_of(const PointResult& r) {
  const auto fits = predicted_fit(r);
  if (!fits) return std::nullopt;
  return *fits < Fit::Tight ? "oom" : *fits == Fit::Tight ? "tight" : "fits";
}

inline std::optional<double> in_gib(const std::optional<MemoryTiers>& tiers, Bytes MemoryTiers::*tier) {
  return tiers ? std::optional(double(((*tiers).*tier).count) / 0x1p30) : std::nullopt;
}

inline Figure figure_of(const PointResult& r) {
  if (r.point->kind == PointKind::Speed) return Figure::StepTime;
  return r.own->tier == MemoryTier::Tensors ? Figure::Tensors : Figure::Process;
}

struct RangeEnds {
  std::optional<double> low, high;
};

/// Of the shipped range around the prediction, in its unit; nothing where there is none.
inline RangeEnds range_ends(const PointResult& r) {
  const auto range = r.own ? default_accuracy().range(figure_of(r), r.kind) : std::nullopt;
  if (!range) return {};
  const double predicted = r.own->predicted;
  if (r.point->kind == PointKind::Speed && is_rate(*r.own)) return {predicted / range->high, predicted / range->low};
  return {predicted * range->low, predicted * range->high};
}

template <class Archive>
void list_fields(Archive& f, const PointResult& r) {
  const Point none;
  const Point& p = r.point ? *r.point : none;
  const bool is_memory = p.kind == PointKind::Memory;
  const RangeEnds ends = range_ends(r);
  f("id", p.id);
  f("kind", std::string(is_memory ? "memory" : "speed"), "memory or speed");
  f("status", std::string(to_string(r.status)), "scored, unsupported or skipped");
  f("reason", text_or_null(r.reason), "of a status other than scored");
  f("source", p.source);
  f("method", p.method);
  f("heading", text_or_null(r.heading), "of a skipped point that is scored apart");
  f("strategy", text_or_null(r.strategy), "null: it could not be read");
  f("outcome", std::string(p.memory.ran_out ? "oom" : "ok"), "ok or oom");
  f("metric", is_memory ? p.memory.metric : p.speed.metric);
  f("measured", is_memory ? p.memory.gib : std::optional(p.speed.value), "as the source printed it; null: oom");
  f("predicted", r.own ? std::optional(r.own->predicted) : std::nullopt);
  f("low", ends.low, "end of the shipped range around the prediction");
  f("high", ends.high);
  f("error", r.own ? finite_or_null(r.own->error()) : std::nullopt, kAnyNumber);
  f("verdict", verdict_of(r), "fits, tight or oom");
  f("predicted_process_gib", in_gib(r.tiers, &MemoryTiers::process));
  f("needed_gib", in_gib(r.tiers, &MemoryTiers::needed));
  f("capacity_gib", in_gib(r.tiers, &MemoryTiers::capacity));
  f("allocated", r.allocated);
  f("process", r.process);
  f("boundary", r.boundary);
}

template <class Archive>
void list_fields(Archive& f, const ErrorSummary& s) {
  f("points", s.num_points);
  f.all_if(s.num_points > 0, [&](auto& inner) {
    inner("sources", s.num_sources);
    inner("median", s.median, "of |error|, sources counted alike");
    inner("p90", s.p90);
    inner("worst", s.worst, kAnyNumber);
    inner("median_signed", s.median_signed, kAnyNumber);
    inner("pooled_median", s.pooled_median, "every point alike");
    inner("pooled_p90", s.pooled_p90);
    inner("pooled_median_signed", s.pooled_median_signed, kAnyNumber);
  });
}

template <class Archive>
void list_fields(Archive& f, const VerdictCounts& v) {
  f("ok_fits", v.ok_fits, "what happened, then what was predicted");
  f("ok_tight", v.ok_tight);
  f("ok_oom", v.ok_oom);
  f("oom_oom", v.oom_oom);
  f("oom_tight", v.oom_tight);
  f("oom_fits", v.oom_fits);
  f("left_out", v.left_out);
  f("false_alarms", v.false_alarms, "ids of ok_oom");
  f("dangerous", v.dangerous, "ids of oom_fits");
}

template <class Archive>
void list_fields(Archive& f, const MemorySummary& s) {
  f("scoreable", s.scoreable, "points that count");
  f("represented", s.represented, "those of them that have a prediction");
  f("own", s.own);
  f("allocated", s.allocated);
  f("process", s.process);
  f("verdicts", s.verdicts);
  f("boundaries", s.boundaries);
}

template <class Archive>
void list_fields(Archive& f, const PairOrder& order) {
  f("right", order.right);
  f("pairs", order.pairs);
  f("share", order.pairs > 0 ? std::optional(order.share()) : std::nullopt);
}

template <class Archive>
void list_fields(Archive& f, const SpeedSummary& s) {
  f("scoreable", s.scoreable, "points that count");
  f("represented", s.represented, "those of them that have a prediction");
  f.all_if(s.represented > 0, [&](auto& inner) {
    inner("sources", s.num_sources);
    inner("median", s.median, "of |ln(predicted / measured)| of the time");
    inner("p90", s.p90);
    inner("median_signed", s.bias, kAnyNumber);
    inner("mean_of_source_medians", s.mean_of_source_medians);
    inner("order", s.order);
    inner("order_same_model", s.order_same_model);
  });
}

/// `all`, then the rows of every grouping: memory_by or speed_by.
template <class Archive, class Summary, class RowsBy>
void list_groups(Archive& f, const Summary& all, const std::vector<PointResult>& results, RowsBy rows_by) {
  list_fields(f, all);
  f.named("by_method", rows_by(results, Grouping::Method));
  f.named("by_strategy", rows_by(results, Grouping::Strategy));
  f.named("by_source", rows_by(results, Grouping::Source));
}

template <class Archive>
void list_fields(Archive& f, const ReasonCount& r) {
  f("reason", r.reason);
  f("points", r.ids.size());
  f("ids", r.ids);
}

template <class Archive>
void list_fields(Archive& f, const Pick& p) {
  f("source", p.source);
  f("job", p.job);
  f("settings", p.num_settings);
  f("picked", p.picked);
  f("best", p.best);
  f("regret", p.regret, "measured of our pick over the best's, less 1");
}

template <class Archive>
void list_fields(Archive& f, const PickSummary& s) {
  std::vector<Pick> missed = s.picks;
  std::erase_if(missed, [](const Pick& p) { return p.is_best(); });
  f("comparisons", s.picks.size());
  f("best", s.num_best);
  f("within_5_percent", s.num_close);
  f("mean_regret", s.mean_regret);
  f("worst_regret", s.worst_regret);
  f("missed", missed);
}

template <class Archive>
void list_fields(Archive& f, const PlanPicks& plans) {
  f("jobs", plans.num_jobs);
  f("within_10_percent", plans.num_close);
  f("median_regret", plans.median_regret);
}

template <class Archive>
void list_fields(Archive& f, const EmpiricalConstant& c) {
  const auto without = [&](auto Ablation::*figure) {
    return c.ablation ? std::optional((*c.ablation).*figure) : std::nullopt;
  };
  f("name", c.name);
  f("value", c.value, kAnyNumber);
  f("unit", c.unit);
  f("kind", c.kind);
  f("of", std::string(c.use == ConstantUse::Memory ? "memory" : "time"), "memory or time");
  f("points", without(&Ablation::num_points), "that depend on it");
  f("median_without", without(&Ablation::median));
  f("p90_without", without(&Ablation::p90));
  f("source", c.source);
}

template <class Archive>
void list_fields(Archive& f, const ReliabilityBand& band) {
  f("from", band.from);
  f("to", band.to);
  f("stated", band.stated, "mean probability; sources weigh alike");
  f("ran", band.happened, "share that would have run");
  f("least_of_a_source", band.least_of_a_source);
  f("most_of_a_source", band.most);
  f("questions", band.num_questions);
  f("sources", band.num_sources);
}

template <class Archive>
void list_fields(Archive& f, const Reliability& r) {
  f("bands", r.bands);
  f("runs", r.num_runs, "known to have worked");
  f("out_of_memory", r.num_out_of_memory);
  f("score", r.score, "mean of -ln of what the outcome was given");
  f("score_of_words", r.score_of_words);
}

template <class Archive>
void list_summary(Archive& f, const ValidationAnswer& answer) {
  f("points", answer.points.size());
  f.object("memory", [&](auto& inner) {
    list_groups(inner, answer.memory, answer.results, memory_by);
    inner.named("by_heading", memory_by_heading(answer.results));
  });
  f.object("speed", [&](auto& inner) { list_groups(inner, answer.speed, answer.results, speed_by); });
  f.object("cross_validated", [&](auto& inner) {
    inner("command", answer.cross_validation.command);
    inner("date", answer.cross_validation.date);
    inner.object("memory", [&](auto& one) { list_groups(one, answer.memory_not_seen, answer.not_seen, memory_by); });
    inner.object("speed", [&](auto& one) { list_groups(one, answer.speed_not_seen, answer.not_seen, speed_by); });
  });
  f.object(
      "ranges", [&](auto& inner) { list_ranges(inner, answer.ranges); },
      "measured / predicted; a heading is there when points of its kind are");
  f("reliability", answer.reliability);
  f.object("empirical_constants", [&](auto& inner) {
    inner("count", answer.constants.size());
    inner("constants", answer.constants);
  });
  f("unsupported", reasons_of(answer.results, PointStatus::Unsupported));
  f("skipped", reasons_of(answer.results, PointStatus::Skipped));
  f.optional_object("picks", answer.picks.has_value(), [&](auto& inner) {
    const std::vector<PickSummary> picks = answer.picks.value_or(std::vector<PickSummary>(2));
    inner("memory", picks[0]);
    inner("speed", picks[1]);
    inner("plans", judge_plans(answer.results));
  });
}

template <class Archive>
void list_fields(Archive& f, const ValidationAnswer& answer) {
  f("gpuplan_version", std::string(GPUPLAN_VERSION));
  f("points", answer.results);
  f.object("summary", [&](auto& inner) { list_summary(inner, answer); });
}

}  // namespace gpuplan
