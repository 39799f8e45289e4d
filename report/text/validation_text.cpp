#include "report/text/validation_text.h"

#include <fmt/format.h>

#include "report/text/facts.h"
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

}  // namespace gpuplan
