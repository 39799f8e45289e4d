#include "cli/render/validation_text.h"

#include <fmt/format.h>

#include "cli/render/facts.h"
#include "cli/render/table.h"
#include "cli/render/text.h"

namespace gpuplan {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }
/// Two digits in narrow tables: "8.5 / 22".
std::string pair_of(const ErrorSummary& s) {
  return s.num_points == 0 ? "" : fmt::format("{:.1f} / {:.0f}", 100 * s.median, 100 * s.p90);
}

void add_errors(Table& table, const char* name, const ErrorSummary& s) {
  if (s.num_points == 0) return;
  table.add({{name},
             {std::to_string(s.num_points)},
             {std::to_string(s.num_sources)},
             {percent(s.median), Ink::Strong},
             {percent(s.p90), Ink::Strong},
             {signed_percent(s.median_signed)},
             {fmt::format("{:+.0f} %", 100 * s.worst)},
             {percent(s.pooled_median)},
             {percent(s.pooled_p90)}});
}

std::string ids_text(const std::vector<std::string>& ids) {
  return ids.empty() ? "" : fmt::format(" ({})", fmt::join(ids, ", "));
}

std::string verdicts_text(const VerdictCounts& v, const Screen& screen) {
  const auto line = [](const char* verdict, std::size_t n, const std::vector<std::string>& ids) {
    return fmt::format("{}: {}{}", verdict, n, ids_text(ids));
  };
  return heading("Fits or not", screen) +
         points({line("ran, and we say it fits", v.ok_fits, {}),
                 line("ran, but we say it does not fit (false alarm)", v.ok_oom, v.false_alarms),
                 line("ran out of memory, and we say so", v.oom_oom, {}),
                 line("ran out of memory, but we say it fits (dangerous)", v.oom_fits, v.dangerous),
                 line("within 5 % of the capacity, or without one: not counted", v.left_out, {})},
                screen);
}

std::string summary_text(const ValidationAnswer& answer, const Screen& screen) {
  const MemorySummary s = summarise_memory(answer.results);
  std::string out = wrap(fmt::format("{} points; {} count, {} of them are predicted ({:.1f} %)", answer.points.size(),
                                     s.scoreable, s.represented, s.scoreable ? 100.0 * double(s.represented) / double(s.scoreable) : 0),
                         prose_width(screen), "", "");
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
  if (!table.rows.empty()) out += "\n" + render(fit_to(table, screen.width), screen);
  return out + verdicts_text(s.verdicts, screen);
}

std::string by_text(const ValidationAnswer& answer, const Screen& screen) {
  if (!answer.by) return "";
  constexpr std::array kTitles{"  source", "  method", "  strategy"};
  Table table{.columns = {{kTitles[std::size_t(*answer.by)]},
                          {"points", Align::Right},
                          {"own, %", Align::Right},
                          {"bias, %", Align::Right},
                          {"allocated, %", Align::Right},
                          {"process, %", Align::Right},
                          {"false alarms", Align::Right, 1},
                          {"dangerous", Align::Right, 1}},
              .rows = {}};
  for (const MemoryRow& row : memory_by(answer.results, *answer.by)) {
    const MemorySummary& s = row.summary;
    const bool has_errors = s.own.num_points > 0;
    table.add({{"  " + row.key},
               {fmt::format("{}/{}", s.represented, s.scoreable)},
               {pair_of(s.own), Ink::Strong},
               {has_errors ? fmt::format("{:+.1f}", 100 * s.own.median_signed) : ""},
               {pair_of(s.allocated)},
               {pair_of(s.process)},
               {s.verdicts.ok_oom ? std::to_string(s.verdicts.ok_oom) : ""},
               {s.verdicts.oom_fits ? std::to_string(s.verdicts.oom_fits) : ""}});
  }
  return heading("Median / p90 of |error|", screen) + render(fit_to(table, screen.width), screen);
}

std::string worst_text(const ValidationAnswer& answer, const Screen& screen) {
  const auto worst = worst_of(answer.results, PointKind::Memory, answer.num_worst);
  if (worst.empty()) return "";
  Table table{.columns = {{"   error", Align::Right}, {"measured", Align::Right}, {"predicted", Align::Right}, {"GiB"}, {"point"}},
              .rows = {}};
  for (const PointResult* r : worst)
    table.add({{fmt::format("{:+.1f} %", 100 * r->own->error())},
               {fmt::format("{:.2f}", r->own->measured)},
               {fmt::format("{:.2f}", r->own->predicted)},
               {r->own->metric},
               {r->point->id}});
  return heading("Furthest off", screen) + render(table, screen);
}

std::string unsupported_text(const ValidationAnswer& answer, const Screen& screen) {
  std::vector<std::string> lines;
  for (const ReasonCount& r : reasons_of(answer.results, PointStatus::Unsupported))
    lines.push_back(fmt::format("{}: {}", r.ids.size(), r.reason));
  return lines.empty() ? "" : heading("Not supported", screen) + points(lines, screen);
}

}  // namespace

std::string validation_text(const ValidationAnswer& answer, const Screen& screen) {
  return summary_text(answer, screen) + by_text(answer, screen) + worst_text(answer, screen) + unsupported_text(answer, screen);
}

}  // namespace gpuplan
