#include "report/text/validation_tables.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "models/recipe_names.h"

namespace gpuplan {
namespace {

std::string tenths(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }
std::string count(std::size_t n) { return std::to_string(n); }
/// Nothing where nothing happened.
std::string count_or_none(std::size_t n) { return n ? count(n) : ""; }
/// "8.5 / 22", per cent.
std::string median_p90(const ErrorSummary& s) {
  return s.num_points == 0 ? "" : fmt::format("{:.1f} / {:.0f}", 100 * s.median, 100 * s.p90);
}

void add_errors(Table& table, const char* name, const ErrorSummary& s) {
  if (s.num_points == 0) return;
  table.add({{name},
             {count(s.num_points)},
             {count(s.num_sources)},
             {tenths(s.median), Ink::Strong},
             {tenths(s.p90), Ink::Strong},
             {signed_percent(s.median_signed)},
             {fmt::format("{:+.0f} %", 100 * s.worst)},
             {tenths(s.pooled_median)},
             {tenths(s.pooled_p90)}});
}

void add_speed(Table& table, const std::string& key, const SpeedSummary& s) {
  const auto order = [](const PairOrder& o) {
    return o.pairs ? fmt::format("{:.0f} % of {}", 100 * o.share(), o.pairs) : "";
  };
  const bool has_errors = s.represented > 0;
  table.add({{"  " + key},
             {fmt::format("{}/{}", s.represented, s.scoreable)},
             {has_errors ? fmt::format("{:.3f}", s.median) : "", Ink::Strong},
             {has_errors ? fmt::format("{:.3f}", s.p90) : "", Ink::Strong},
             {has_errors ? fmt::format("{:+.3f}", s.bias) : ""},
             {has_errors && s.num_sources > 1 ? fmt::format("{:.3f}", s.mean_of_source_medians) : ""},
             {order(s.order)},
             {order(s.order_same_model)}});
}

Table empty_speed_table(const std::string& title) {
  return {.columns = {{title},
                      {"points", Align::Right},
                      {"median", Align::Right},
                      {"p90", Align::Right},
                      {"bias", Align::Right},
                      {"by source", Align::Right, 2},
                      {"order right", Align::Right, 1},
                      {"same model", Align::Right, 3}},
          .rows = {}};
}

constexpr std::array<const char*, 3> kGroupingTitles{"  source", "  method", "  strategy"};

/// Three digits, whatever the unit.
std::string figure_text(double value) { return fmt::format("{:.{}f}", value, value < 10 ? 3 : value < 1000 ? 1 : 0); }

void add_range(Table& table, std::string_view figure, std::string_view method, const AccuracyRange& r) {
  table.add({{fmt::format("  {}", figure)},
             {std::string(method)},
             {fmt::format("{:.0f} %", 100 * (r.low - 1))},
             {fmt::format("+{:.0f} %", 100 * (r.high - 1))},
             {count(r.num_points)},
             {count(r.num_sources)},
             {fmt::format("{:.0f} %", 100 * r.coverage)}});
}

}  // namespace

Table memory_errors_table(const MemorySummary& s) {
  Table table{.columns = {{"  memory"},
                          {"points", Align::Right},
                          {"sources", Align::Right, 2},
                          {"median", Align::Right},
                          {"p90", Align::Right},
                          {"bias", Align::Right},
                          {"worst", Align::Right},
                          {"pooled", Align::Right, 3},
                          {"pooled p90", Align::Right, 3}},
              .rows = {}};
  add_errors(table, "  own metric", s.own);
  add_errors(table, "  allocated", s.allocated);
  add_errors(table, "  process", s.process);
  add_errors(table, "  largest that fits", s.boundaries);
  return table;
}

Table speed_errors_table(const SpeedSummary& s) {
  Table table = empty_speed_table("  speed");
  add_speed(table, "|ln(predicted / measured)|", s);
  return table;
}

Table memory_by_table(const ValidationAnswer& answer, Grouping grouping) {
  Table table{.columns = {{kGroupingTitles[std::size_t(grouping)]},
                          {"points", Align::Right},
                          {"own, %", Align::Right},
                          {"bias, %", Align::Right},
                          {"allocated, %", Align::Right},
                          {"process, %", Align::Right},
                          {"false alarms", Align::Right, 1},
                          {"dangerous", Align::Right, 1}},
              .rows = {}};
  for (const MemoryRow& row : memory_by(answer.results, grouping)) {
    const MemorySummary& s = row.summary;
    table.add({{"  " + row.key},
               {fmt::format("{}/{}", s.represented, s.scoreable)},
               {median_p90(s.own), Ink::Strong},
               {s.own.num_points > 0 ? fmt::format("{:+.1f}", 100 * s.own.median_signed) : ""},
               {median_p90(s.allocated)},
               {median_p90(s.process)},
               {count_or_none(s.verdicts.ok_oom)},
               {count_or_none(s.verdicts.oom_fits)}});
  }
  return table;
}

Table speed_by_table(const ValidationAnswer& answer, Grouping grouping) {
  Table table = empty_speed_table(kGroupingTitles[std::size_t(grouping)]);
  for (const SpeedRow& row : speed_by(answer.results, grouping)) add_speed(table, row.key, row.summary);
  return table;
}

Table verdicts_table(const VerdictCounts& v) {
  Table table{.columns = {{"  what happened"}, {"we say it fits", Align::Right}, {"we say it does not", Align::Right}},
              .rows = {}};
  table.add(
      {{"  it ran"}, {count(v.ok_fits)}, {fmt::format("{} false alarms", v.ok_oom), v.ok_oom ? Ink::Bad : Ink::Plain}});
  table.add({{"  it ran out of memory"},
             {fmt::format("{} dangerous", v.oom_fits), v.oom_fits ? Ink::Bad : Ink::Plain},
             {count(v.oom_oom)}});
  return table;
}

Table worst_table(const ValidationAnswer& answer, PointKind kind, std::size_t most) {
  Table table{.columns = {{"   error", Align::Right},
                          {"measured", Align::Right},
                          {"predicted", Align::Right},
                          {"metric"},
                          {"point"}},
              .rows = {}};
  for (const PointResult* r : worst_of(answer.results, kind, most))
    table.add({{fmt::format("{:+.0f} %", 100 * r->own->error())},
               {figure_text(r->own->measured)},
               {figure_text(r->own->predicted)},
               {r->own->metric + (kind == PointKind::Memory ? ", GiB" : "")},
               {r->point->id}});
  return table;
}

Table ranges_table(const Accuracy& ranges) {
  Table table{.columns = {{"  figure"},
                          {"method"},
                          {"from", Align::Right},
                          {"to", Align::Right},
                          {"points", Align::Right},
                          {"sources", Align::Right},
                          {"covers unseen sources", Align::Right}},
              .rows = {}};
  for (const auto& [figure, a] : ranges.figures) {
    add_range(table, to_string(figure), "all", a.all);
    for (const auto& [method, range] : a.by_method) add_range(table, "", to_string(method), range);
  }
  return table;
}

Table picks_table(const std::vector<PickSummary>& picks) {
  Table table{.columns = {{"  picks"},
                          {"comparisons", Align::Right},
                          {"our pick is the best", Align::Right},
                          {"within 5 % of it", Align::Right},
                          {"mean regret", Align::Right},
                          {"worst regret", Align::Right}},
              .rows = {}};
  for (const PickSummary& s : picks) {
    if (s.picks.empty()) continue;
    const auto share = [&](std::size_t n) {
      return fmt::format("{} ({:.0f} %)", n, 100.0 * double(n) / double(s.picks.size()));
    };
    table.add({{s.picks.front().kind == PointKind::Memory ? "  least memory" : "  fastest"},
               {count(s.picks.size())},
               {share(s.num_best)},
               {share(s.num_close)},
               {tenths(s.mean_regret)},
               {tenths(s.worst_regret)}});
  }
  return table;
}

std::vector<std::string> reason_lines(const ValidationAnswer& answer, PointStatus status) {
  std::vector<std::string> lines;
  for (const ReasonCount& r : reasons_of(answer.results, status))
    lines.push_back(fmt::format("{}: {}", r.ids.size(), r.reason));
  return lines;
}

std::vector<std::string> missed_pick_lines(const std::vector<PickSummary>& picks) {
  std::vector<const Pick*> missed;
  for (const PickSummary& s : picks)
    for (const Pick& pick : s.picks)
      if (!pick.is_best()) missed.push_back(&pick);
  std::stable_sort(missed.begin(), missed.end(), [](const Pick* a, const Pick* b) { return a->regret > b->regret; });
  std::vector<std::string> lines;
  for (const Pick* p : missed)
    lines.push_back(fmt::format("{:+.1f} %: {}, of {} settings we pick {}, measured best is {}", 100 * p->regret,
                                p->source, p->num_settings, p->picked, p->best));
  return lines;
}

}  // namespace gpuplan
