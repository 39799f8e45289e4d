#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "report/phase_points.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Median and largest |ln(predicted / measured)| of each figure, over points that count and over all.
std::string summary(const std::vector<PhasePoint>& points, const Screen& screen) {
  std::set<std::string> names;
  for (const PhasePoint& p : points)
    for (const PhaseFigure& f : p.figures) names.insert(f.name);
  Table table{
      .columns = {{"  figure"}, {"points", Align::Right}, {"median |ln|", Align::Right}, {"largest", Align::Right}},
      .rows = {}};
  for (const bool all : {false, true})
    for (const std::string& name : names) {
      std::vector<double> errors;
      for (const PhasePoint& p : points)
        for (const PhaseFigure& f : p.figures)
          if (f.name == name && (all || p.counts)) errors.push_back(std::abs(f.log_error()));
      if (errors.empty()) continue;
      table.add({{fmt::format("  {}{}", name, all ? ", all points" : "")},
                 {fmt::format("{}", errors.size())},
                 {fmt::format("{:.3f}", median_of(errors))},
                 {fmt::format("{:.3f}", *std::ranges::max_element(errors))}});
    }
  return render(table, screen);
}

std::string verdicts(const std::vector<PhasePoint>& points, const Screen& screen) {
  std::size_t ran = 0, ran_no = 0, oom = 0, oom_yes = 0;
  std::string wrong;
  for (const PhasePoint& p : points) {
    if (!p.fit || p.outcome.empty()) continue;
    const bool is_oom = p.outcome == "oom";
    const bool is_wrong = is_oom ? *p.fit == Fit::Yes : *p.fit == Fit::No;
    (is_oom ? oom : ran)++;
    if (is_wrong) (is_oom ? oom_yes : ran_no)++, wrong += " " + p.id;
  }
  return wrap(fmt::format("verdicts: {} runs that ran, {} called no; {} that ran out of memory, {} called yes{}", ran,
                          ran_no, oom, oom_yes, wrong.empty() ? "" : ":" + wrong),
              prose_width(screen), "", "  ");
}

}  // namespace

double PhaseFigure::log_error() const { return std::log(predicted / measured); }

std::string phase_points_text(const std::vector<PhasePoint>& points, const Screen& screen) {
  Table table{.columns = {{"  point"},
                          {"figure"},
                          {"predicted", Align::Right},
                          {"measured", Align::Right},
                          {"ln", Align::Right}},
              .rows = {}};
  std::string refused;
  for (const PhasePoint& p : points) {
    if (!p.refused.empty()) refused += wrap(fmt::format("{}: {}", p.id, p.refused), prose_width(screen), "  ", "    ");
    for (const PhaseFigure& f : p.figures)
      table.add({{fmt::format("  {}{}", p.id, p.counts ? "" : " (partial)")},
                 {f.name},
                 {fmt::format("{:.3g}", f.predicted)},
                 {fmt::format("{:.3g}", f.measured)},
                 {fmt::format("{:+.2f}", f.log_error())}});
  }
  return summary(points, screen) + verdicts(points, screen) + heading("Points", screen) + render(table, screen) +
         (refused.empty() ? "" : heading("Without a prediction", screen) + refused);
}

}  // namespace gpuplan
