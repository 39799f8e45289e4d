#include "report/text/validation_text.h"

#include <fmt/format.h>

#include "report/text/table.h"
#include "report/text/text.h"
#include "report/text/validation_tables.h"

namespace gpuplan {
namespace {

std::string shown(const Table& table, const Screen& screen) {
  return table.rows.empty() ? "" : render(fit_to(table, screen.width), screen);
}

/// The table below its title; nothing for an empty one.
std::string titled(std::string_view title, const Table& table, const Screen& screen) {
  return table.rows.empty() ? "" : heading(title, screen) + shown(table, screen);
}

std::string titled(std::string_view title, const std::vector<std::string>& lines, const Screen& screen) {
  return lines.empty() ? "" : heading(title, screen) + points(lines, screen);
}

std::string counts_text(const ValidationAnswer& answer, const Screen& screen) {
  const std::size_t scoreable = answer.memory.scoreable + answer.speed.scoreable;
  const std::size_t represented = answer.memory.represented + answer.speed.represented;
  const double share = scoreable ? 100.0 * double(represented) / double(scoreable) : 0;
  return wrap(fmt::format("{} points; {} count, {} of them are predicted ({:.1f} %), with {} empirical constants",
                          answer.points.size(), scoreable, represented, share, answer.constants.size()),
              prose_width(screen), "", "");
}

std::string ids_line(const char* what, const std::vector<std::string>& ids, const Screen& screen) {
  return ids.empty() ? "" : wrap(fmt::format("{}: {}", what, fmt::join(ids, ", ")), prose_width(screen), "  ", "    ");
}

std::string verdicts_text(const VerdictCounts& v, const Screen& screen) {
  if (v.ok_fits + v.ok_oom + v.oom_oom + v.oom_fits + v.left_out == 0) return "";
  return heading("Fits or not", screen) + shown(verdicts_table(v), screen) +
         fmt::format("  {} not counted: within 5 % of the capacity, or none is stated\n", v.left_out) +
         ids_line("false alarms", v.false_alarms, screen) + ids_line("dangerous", v.dangerous, screen);
}

std::string memory_text(const ValidationAnswer& answer, const Screen& screen) {
  if (answer.memory.scoreable == 0) return "";
  std::string out =
      "\n" + shown(memory_errors_table(answer.memory), screen) + verdicts_text(answer.memory.verdicts, screen);
  if (answer.by) out += titled("Memory: median / p90 of |error|", memory_by_table(answer, *answer.by), screen);
  return out + titled("Memory, furthest off", worst_table(answer, PointKind::Memory, answer.num_worst), screen);
}

std::string speed_text(const ValidationAnswer& answer, const Screen& screen) {
  if (answer.speed.scoreable == 0) return "";
  std::string out = "\n" + shown(speed_errors_table(answer.speed), screen);
  if (answer.by)
    out += titled("Speed: |ln(predicted / measured)| of the time", speed_by_table(answer, *answer.by), screen);
  return out + titled("Speed, furthest off", worst_table(answer, PointKind::Speed, answer.num_worst), screen);
}

std::string picks_text(const ValidationAnswer& answer, const Screen& screen) {
  if (!answer.picks) return "";
  return titled("Of the settings that one source compared", picks_table(*answer.picks), screen) +
         titled("Not picked", missed_pick_lines(*answer.picks), screen);
}

}  // namespace

std::string validation_text(const ValidationAnswer& answer, const Screen& screen) {
  return counts_text(answer, screen) + memory_text(answer, screen) + speed_text(answer, screen) +
         picks_text(answer, screen) + titled("8 of 10 measurements lie within", ranges_table(answer.ranges), screen) +
         titled("Not supported", reason_lines(answer, PointStatus::Unsupported), screen);
}

namespace {

constexpr std::size_t kWorstListed = 15;

constexpr const char* kHead =
    "# How accurate gpuplan is\n\n"
    "Written by `gpuplan validate data/validation/*.jsonl --report docs/accuracy.md`; a test compares it with the "
    "program. The "
    "points are published measurements of other people (data/validation/README.md). No number of the model belongs to "
    "a source, "
    "a model or a point.\n\n";

constexpr const char* kMemoryHead =
    "Error: predicted / measured - 1. Each point is judged in the metric that its source measured: allocated bytes, "
    "bytes "
    "reserved by the allocator, or the process as nvidia-smi shows it (reserved, nvidia-smi and unspecified count as "
    "process). "
    "Median and p90 of |error| are macro-weighted: points within a group, groups within a source, then sources alike. "
    "Pooled: "
    "every point alike. Bias: median of the signed error.\n\n";

constexpr const char* kSpeedHead =
    "|ln(predicted / measured)| of the time of a step, every point alike; by source: mean of the sources' medians; "
    "bias above 0 is "
    "too slow. Order: of two settings that one source measured on the same hardware and that differ by more than 10 % "
    "in tokens "
    "per second, how often the faster one is predicted to be faster. Nothing is calibrated on the machines of the "
    "points.\n\n";

constexpr const char* kRangesHead =
    "`estimate` states these ranges beside its figures: 8 of 10 measurements lie between from and to, in per cent of "
    "the "
    "prediction. They are quantiles of measured / predicted, macro-weighted, and widened until every source is covered "
    "by the range "
    "that the other sources give: that share is in the last column.\n\n";

/// The section, or nothing when there is nothing to say.
std::string section(const std::string& title, const std::string& text) {
  return text.empty() ? "" : "## " + title + "\n\n" + text + "\n";
}
std::string table_or_none(const Table& table) { return table.rows.empty() ? "" : markdown_table(table) + "\n"; }

std::string grouped(const ValidationAnswer& answer, Table (*make)(const ValidationAnswer&, Grouping)) {
  std::string out;
  for (const Grouping grouping : {Grouping::Method, Grouping::Strategy, Grouping::Source})
    out += table_or_none(make(answer, grouping));
  return out;
}

Table peers_table(const std::vector<Peer>& peers, double median, double p90, const std::string& scope) {
  Table table{.columns = {{"tool"}, {"median", Align::Right}, {"p90", Align::Right}, {"answers"}}, .rows = {}};
  table.add({{"gpuplan"}, {fmt::format("{:.3f}", median)}, {fmt::format("{:.3f}", p90)}, {scope}});
  for (const Peer& p : peers)
    table.add({{p.tool}, {fmt::format("{:.3g}", p.median)}, {fmt::format("{:.3g}", p.p90)}, {p.scope}});
  return table;
}

std::string ids_text(const char* what, const std::vector<std::string>& ids) {
  return ids.empty() ? "" : fmt::format("{}: {}.\n\n", what, fmt::join(ids, ", "));
}

std::string memory_text(const ValidationAnswer& answer) {
  const MemorySummary& s = answer.memory;
  if (s.scoreable == 0) return "";
  const VerdictCounts& v = s.verdicts;
  return kMemoryHead + fmt::format("{} points count, {} are predicted.\n\n", s.scoreable, s.represented) +
         table_or_none(memory_errors_table(s)) + "Median / p90 of |error| in per cent:\n\n" +
         grouped(answer, memory_by_table) + "### Fits or not\n\n" + table_or_none(verdicts_table(v)) +
         fmt::format(
             "{} points are not counted: the measurement or the prediction is within 5 % of the capacity, or no "
             "capacity is "
             "stated.\n\n",
             v.left_out) +
         ids_text("False alarms", v.false_alarms) + ids_text("Dangerous", v.dangerous) + "### Furthest off\n\n" +
         table_or_none(worst_table(answer, PointKind::Memory, kWorstListed));
}

std::string speed_text(const ValidationAnswer& answer) {
  const SpeedSummary& s = answer.speed;
  if (s.scoreable == 0) return "";
  return kSpeedHead + fmt::format("{} points count, {} are predicted.\n\n", s.scoreable, s.represented) +
         table_or_none(speed_errors_table(s)) + grouped(answer, speed_by_table) + "### Furthest off\n\n" +
         table_or_none(worst_table(answer, PointKind::Speed, kWorstListed));
}

std::string picks_text(const ValidationAnswer& answer) {
  const std::vector<PickSummary> picks{judge_picks(answer.results, PointKind::Memory),
                                       judge_picks(answer.results, PointKind::Speed)};
  const Table table = picks_table(picks);
  if (table.rows.empty()) return "";
  return "Where one source compared settings of one job on the same hardware: is the one that we would pick its best? "
         "Regret: what our "
         "pick measured above the best.\n\n" +
         markdown_table(table) + "\nNot picked:\n\n" + markdown_list(missed_pick_lines(picks));
}

std::string peers_text(const ValidationAnswer& answer, const Peers& peers) {
  std::string out = fmt::format("Figures of the other tools: {}.\n\n", peers.source);
  if (answer.memory.represented > 0)
    out += "Memory:\n\n" +
           markdown_table(
               peers_table(peers.memory, answer.memory.own.median, answer.memory.own.p90,
                           fmt::format("{} of {} points", answer.memory.represented, answer.memory.scoreable))) +
           "\n";
  if (answer.speed.represented > 0)
    out += "Speed:\n\n" + markdown_table(peers_table(
                              peers.speed, answer.speed.median, answer.speed.p90,
                              fmt::format("{} of {} points", answer.speed.represented, answer.speed.scoreable)));
  return out;
}

std::string constants_text(const ValidationAnswer& answer) {
  Table table{.columns = {{"constant"}, {"value", Align::Right}, {"unit"}, {"kind"}, {"of"}, {"source"}}, .rows = {}};
  for (const EmpiricalConstant& c : answer.constants)
    table.add({{c.name},
               {fmt::format("{:.4g}", c.value)},
               {c.unit},
               {c.kind},
               {c.use == ConstantUse::Memory ? "memory" : "time"},
               {c.source}});
  return fmt::format("{} numbers that were fitted, measured or chosen stand behind these predictions.\n\n",
                     answer.constants.size()) +
         markdown_table(table);
}

}  // namespace

std::string validation_report(const ValidationAnswer& answer, const Peers& peers) {
  std::string out =
      kHead + section("Memory", memory_text(answer)) + section("Speed", speed_text(answer)) +
      section("Other tools on the same points", peers_text(answer, peers)) +
      section("Ranges",
              answer.ranges.figures.empty() ? "" : kRangesHead + markdown_table(ranges_table(answer.ranges))) +
      section("Picks", picks_text(answer)) + section("Empirical constants", constants_text(answer)) +
      section("Not supported", markdown_list(reason_lines(answer, PointStatus::Unsupported))) +
      section("Not scored", markdown_list(reason_lines(answer, PointStatus::Skipped)));
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace gpuplan
