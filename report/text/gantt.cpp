#include "report/text/gantt.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "base/narrow.h"
#include "base/unit_text.h"
#include "report/text/activity_look.h"
#include "report/text/simulation_facts.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

struct TimeUnit {
  std::int64_t ps;
  std::string_view name;
};
constexpr std::array kUnits{TimeUnit{1'000'000'000'000, "s"}, TimeUnit{1'000'000'000, "ms"}, TimeUnit{1'000'000, "us"},
                            TimeUnit{1'000, "ns"}, TimeUnit{1, "ps"}};

/// The largest unit in which `end` is at least two, so that labels stay short.
const TimeUnit& unit_for(SimTime end) {
  for (const TimeUnit& unit : kUnits)
    if (end.ps >= 2 * unit.ps) return unit;
  return kUnits.back();
}

/// The smallest round distance of which at most `max_marks` fit into `length`, both ends included.
std::int64_t round_distance(std::int64_t length, int max_marks) {
  for (std::int64_t power = 1;; power *= 10)
    for (const std::int64_t factor : {1, 2, 5})
      if (length / (factor * power) < max_marks) return factor * power;
}

}  // namespace

std::vector<TimeMark> time_marks(SimTime begin, SimTime end, int max_marks) {
  const std::int64_t distance = round_distance(std::max<std::int64_t>(0, (end - begin).ps), std::max(1, max_marks));
  const TimeUnit& unit = unit_for(end);
  std::vector<TimeMark> marks;
  for (std::int64_t t = (begin.ps + distance - 1) / distance * distance; t <= end.ps; t += distance)
    marks.push_back({{t}, t == 0 ? "0" : fmt::format("{:.9g} {}", double(t) / double(unit.ps), unit.name)});
  return marks;
}

namespace {

constexpr int kIndent = 4, kShareWidth = 6;  // "  97 %"
constexpr std::string_view kCriticalLabel = "critical path";

using Times = std::array<std::int64_t, std::size_t(kNumActivities)>;  // picoseconds

/// The columns of a chart: where they begin, and what runs in them.
struct Columns {
  SimTime begin, end;
  int count = 1;

  SimTime start(int column) const {
    return {begin.ps + std::int64_t(__extension__ __int128((end - begin).ps) * column / count)};
  }
  int at(SimTime time) const {
    return std::clamp(int(__extension__ __int128((time - begin).ps) * count / (end - begin).ps), 0, count - 1);
  }
};

struct Row {
  std::vector<Times> columns;
  SimTime busy;
};

void add_span(Row& row, const Columns& columns, const Span& span) {
  row.columns.resize(std::size_t(columns.count));  // also where the span only waits in this window
  const WorkingPart works = working_part(span);
  const SimTime begin = std::max(works.begin, columns.begin), end = std::min(works.end, columns.end);
  if (begin >= end) return;
  row.busy += end - begin;
  for (int c = columns.at(begin); c < columns.count && columns.start(c) < end; ++c) {
    const SimTime from = std::max(begin, columns.start(c)), to = std::min(end, columns.start(c + 1));
    if (from < to) row.columns[std::size_t(c)][std::size_t(span.activity)] += (to - from).ps;
  }
}

/// Gives what takes most of a column; kNumActivities: idle.
int shown(const Times& times, std::int64_t width) {
  std::int64_t busy = 0;
  for (const std::int64_t t : times) busy += t;
  if (busy * 4 < width || busy == 0) return kNumActivities;
  return narrow<int>(std::max_element(times.begin(), times.end()) - times.begin());
}

using Legend = std::array<bool, std::size_t(kNumActivities)>;

std::string cells(const Row& row, const Columns& columns, Legend& legend, const Screen& screen) {
  std::vector<int> what;
  for (int c = 0; c < columns.count; ++c)
    what.push_back(shown(row.columns[std::size_t(c)], (columns.start(c + 1) - columns.start(c)).ps));
  std::string out;
  for (std::size_t i = 0; i < what.size();) {
    const auto next = std::find_if(what.begin() + std::ptrdiff_t(i), what.end(), [&](int w) { return w != what[i]; });
    const int count = narrow<int>(next - what.begin()) - narrow<int>(i);
    if (what[i] == kNumActivities) {
      std::string idle;
      for (int k = 0; k < count; ++k) idle += screen.has_unicode ? "·" : ".";
      out += paint(idle, Ink::Faint, screen);
    } else {
      legend[std::size_t(what[i])] = true;
      out += draw(Activity(what[i]), count, screen);
    }
    i += std::size_t(count);
  }
  return out;
}

struct GanttChart {
  Columns columns;
  std::map<std::pair<std::uint32_t, int>, Row> rows;  // by rank, then stream
  Row critical;
  std::vector<ShownRank> ranks;
  int label_width = 0;
};

int label_width(const Simulation& simulation) {
  int width = simulation.critical_path.empty() ? 0 : width_of(kCriticalLabel) - 2;
  for (int s = 0; s < kNumStreams; ++s) width = std::max(width, width_of(name_of(StreamId(s))));
  return width;
}

GanttChart make_chart(const Simulation& simulation, const GanttView& view, const Screen& screen) {
  GanttChart chart;
  chart.ranks = shown_ranks(simulation, view.max_ranks);
  chart.label_width = label_width(simulation);
  const SimTime end = simulation.with_gradients();
  chart.columns = {view.begin, std::min(view.end.value_or(end), end),
                   std::max(20, screen.width - kIndent - chart.label_width - 1 - kShareWidth)};
  if (chart.columns.begin >= chart.columns.end) return chart;
  std::vector<bool> is_drawn(simulation.ranks.size());
  for (const ShownRank& shown : chart.ranks) is_drawn[shown.rank] = true;
  for (const Span& span : simulation.spans)
    if (is_drawn[span.rank] && span.begin < chart.columns.end && span.end > chart.columns.begin)
      add_span(chart.rows[{span.rank, int(span.stream)}], chart.columns, span);
  for (const std::uint32_t i : simulation.critical_path) add_span(chart.critical, chart.columns, simulation.spans[i]);
  return chart;
}

std::string row_text(std::string_view label, const Row& row, const GanttChart& chart, int indent, Legend& legend,
                     const Screen& screen) {
  return std::string(std::size_t(indent), ' ') + pad_right(std::string(label), chart.label_width + kIndent - indent) +
         " " + cells(row, chart.columns, legend, screen);
}

/// Says how much of the chart's time a stream is busy.
std::string share_text(const Row& row, const Columns& columns) {
  return fmt::format(" {:3.0f} %\n", 100 * double(row.busy.ps) / double((columns.end - columns.begin).ps));
}

/// "|0        |200 ms   |400 ms": a mark stands at the column where its time begins.
std::string axis_text(const GanttChart& chart, const Screen& screen) {
  constexpr int kLabelWidth = 10;
  std::string line;
  for (const TimeMark& mark :
       time_marks(chart.columns.begin, chart.columns.end, chart.columns.count / kLabelWidth + 1)) {
    const int column = chart.columns.at(mark.time);
    if (column < width_of(line) || column + width_of(mark.label) >= chart.columns.count + kShareWidth) continue;
    line = pad_right(line, column) + "|" + mark.label;
  }
  return std::string(std::size_t(kIndent + chart.label_width + 1), ' ') + paint(line, Ink::Faint, screen) + "\n";
}

std::string legend_text(const Legend& legend, const Screen& screen) {
  std::string line;
  std::string out;
  int width = 0;
  for (int a = 0; a < kNumActivities; ++a) {
    if (!legend[std::size_t(a)]) continue;
    const std::string_view name = to_string(Activity(a));
    if (width + 4 + width_of(name) > prose_width(screen) - 2 && width > 0) {
      out += "  " + line + "\n";
      line.clear();
      width = 0;
    }
    line += (width == 0 ? "" : "   ") + draw(Activity(a), 1, screen) + " " + std::string(name);
    width += (width == 0 ? 0 : 3) + 2 + width_of(name);
  }
  return line.empty() ? out : out + "  " + line + "\n";
}

ShownRank shown_of(const GanttChart& chart, std::uint32_t rank) {
  return *std::find_if(chart.ranks.begin(), chart.ranks.end(), [&](const ShownRank& r) { return r.rank == rank; });
}

std::string rank_title(const Simulation& simulation, const ShownRank& shown) {
  const std::string& name = simulation.ranks[shown.rank].name;
  return shown.others > 0 ? fmt::format("{}, like {} more", name, shown.others) : name;
}

}  // namespace

std::string gantt_text(const Simulation& simulation, const GanttView& view, const Screen& screen) {
  const GanttChart chart = make_chart(simulation, view, screen);
  if (chart.rows.empty()) return "";
  Legend legend{};
  std::string out;
  for (auto row = chart.rows.begin(); row != chart.rows.end(); ++row) {
    const auto [rank, stream] = row->first;
    if (row == chart.rows.begin() || std::prev(row)->first.first != rank)
      out += "  " + paint(rank_title(simulation, shown_of(chart, rank)), Ink::Strong, screen) + "\n";
    out += row_text(name_of(StreamId(stream)), row->second, chart, kIndent, legend, screen) +
           share_text(row->second, chart.columns);
  }
  if (!chart.critical.columns.empty()) out += row_text(kCriticalLabel, chart.critical, chart, 2, legend, screen) + "\n";
  out += axis_text(chart, screen) + legend_text(legend, screen);
  if (const std::int64_t left = num_not_shown(simulation, view.max_ranks); left > 0)
    out += wrap(fmt::format("{} of {} simulated GPUs are not drawn", left, simulation.ranks.size()),
                prose_width(screen), "  ", "  ");
  return out;
}

}  // namespace gpuplan
