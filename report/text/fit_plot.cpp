#include "report/text/fit_plot.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "base/names.h"
#include "base/narrow.h"
#include "report/profile_numbers.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

constexpr int kCurvePoints = 160;

/// A fit and the samples that it was made from.
struct FittedProbes {
  std::function<bool(const Probe&)> is_of;
  std::function<double(const Probe&)> size;   // on the x axis
  std::function<Seconds(const Probe&)> time;  // fitted
  double work_per_size = 1;                   // y = work / time
  double least = 0, most = HUGE_VAL;          // sizes that were fitted

  bool was_fitted(const Probe& probe) const { return size(probe) >= least && size(probe) <= most; }
};

std::vector<const Sample*> samples_for(const FittedProbes& fit, const std::vector<Sample>& samples) {
  std::vector<const Sample*> out;
  for (const Sample& sample : samples)
    if (sample.is_ok() && sample.median > 0 && fit.is_of(sample.probe) && fit.size(sample.probe) > 0)
      out.push_back(&sample);
  std::ranges::stable_sort(out,
                           [&](const Sample* a, const Sample* b) { return fit.size(a->probe) < fit.size(b->probe); });
  return out;
}

/// A point that was not fitted cannot be missed.
double miss(const FittedProbes& fit, const Sample& sample) {
  return fit.was_fitted(sample.probe) ? std::abs(std::log(fit.time(sample.probe).value / sample.median)) : 0;
}

/// From here on a sample is one of the `num_outliers` that are furthest off.
double outlier_limit(const FittedProbes& fit, const std::vector<const Sample*>& samples, std::int64_t num_outliers) {
  std::vector<double> misses;
  for (const Sample* sample : samples) misses.push_back(miss(fit, *sample));
  std::ranges::sort(misses, std::greater{});
  const std::size_t count = std::min(misses.size(), std::size_t(std::max<std::int64_t>(0, num_outliers)));
  return count == 0 ? HUGE_VAL : misses[count - 1];
}

void add_points(FitPlot& plot, const FittedProbes& fit, const std::vector<Sample>& all, const FitQuality& quality) {
  const auto samples = samples_for(fit, all);
  const double limit = outlier_limit(fit, samples, quality.num_outliers);
  for (const Sample* s : samples) {
    const double x = fit.size(s->probe), work = x * fit.work_per_size;
    plot.points.push_back({.x = x,
                           .y = work / s->median,
                           .low = work / std::max(s->high, s->median),
                           .high = work / (s->low > 0 ? std::min(s->low, s->median) : s->median),
                           .is_outlier = miss(fit, *s) >= limit,
                           .name = s->probe.key()});
    if (plot.style == CurveStyle::Marks) plot.curve.push_back({x, work / fit.time(s->probe).value});
  }
}

/// A line over [least, most].
void add_line(FitPlot& plot, double least, double most, double work_per_size,
              const std::function<Seconds(double)>& time) {
  for (int i = 0; i < kCurvePoints; ++i) {
    const double x = least * std::pow(most / least, double(i) / (kCurvePoints - 1));
    plot.curve.push_back({x, x * work_per_size / time(x).value});
  }
}

FitPlot gemm_plot(const GemmSurface& surface, const MeasurementsAtRanks& load, const std::vector<Sample>& samples) {
  const std::int64_t num_ranks = load.num_ranks;
  FitPlot plot{.title = gemm_name(surface) + ranks_suffix(num_ranks),
               .x_label = "size of the product",
               .y_label = "rate",
               .note = quality_text(surface.quality),
               .x_unit = PlotUnit::FlopCount,
               .y_unit = PlotUnit::FlopRate,
               .points = {},
               .curve = {},
               .style = CurveStyle::Marks};
  const auto is_of = [&](const Probe& p) {
    return p.family == ProbeFamily::Gemm && p.num_ranks == num_ranks && p.layout == surface.layout &&
           load.surface_of(p.type, p.layout, regime_of(p.shape)) == &surface;
  };
  add_points(plot,
             {is_of, [](const Probe& p) { return p.flops(); }, [&](const Probe& p) { return surface.time(p.shape); }},
             samples, surface.quality);
  return plot;
}

FitPlot kernel_plot(const KernelRate& rate, std::int64_t num_ranks, const std::vector<Sample>& samples) {
  FitPlot plot{.title = kernel_name(rate) + ranks_suffix(num_ranks),
               .x_label = "bytes moved",
               .y_label = "rate",
               .note = quality_text(rate.quality),
               .x_unit = PlotUnit::ByteCount,
               .y_unit = PlotUnit::ByteRate,
               .points = {},
               .curve = {}};
  const auto time = [&](double bytes) { return rate.time(bytes); };
  const auto size = [](const Probe& p) { return double(p.traffic().count); };
  const auto is_of = [&](const Probe& p) {
    return p.family == ProbeFamily::Memory && p.num_ranks == num_ranks && to_string(p.kernel) == rate.kernel &&
           p.dtype == rate.dtype;
  };
  const double least = rate.least.count > 0 ? double(rate.least.count) : 0x1p16,
               most = rate.most.count > 0 ? double(rate.most.count) : 0x1p28;
  add_points(plot, {is_of, size, [&](const Probe& p) { return time(size(p)); }, 1, least, most}, samples, rate.quality);
  add_line(plot, least, std::max(most, 2 * least), 1, time);
  return plot;
}

FitPlot attention_plot(const AttentionRate& rate, std::int64_t num_ranks, const std::vector<Sample>& samples) {
  FitPlot plot{.title = attention_name(rate) + ranks_suffix(num_ranks),
               .x_label = "both products, full square",
               .y_label = "rate",
               .note = quality_text(rate.quality),
               .x_unit = PlotUnit::FlopCount,
               .y_unit = PlotUnit::FlopRate,
               .points = {},
               .curve = {}};
  const auto time = [&](double flops) { return Seconds{rate.launch.value + flops / rate.rate.value}; };
  const auto is_of = [&](const Probe& p) {
    return p.family == ProbeFamily::Attention && p.num_ranks == num_ranks && to_string(p.attention) == rate.kernel &&
           p.dtype == rate.dtype && p.shape.k == rate.head_size;
  };
  add_points(plot, {is_of, [](const Probe& p) { return p.flops(); }, [&](const Probe& p) { return time(p.flops()); }},
             samples, rate.quality);
  const bool has_points = !plot.points.empty();
  add_line(plot, has_points ? plot.points.front().x : 1e8, has_points ? plot.points.back().x : 1e12, 1, time);
  return plot;
}

FitPlot collective_plot(const CollectiveCurve& curve, const std::vector<Sample>& samples) {
  FitPlot plot{.title = collective_name(curve),
               .x_label = "whole tensor",
               .y_label = "busbw",
               .note = quality_text(curve.quality),
               .x_unit = PlotUnit::ByteCount,
               .y_unit = PlotUnit::ByteRate,
               .points = {},
               .curve = {}};
  const double factor = bus_factor(curve.kind, curve.num_ranks);
  const auto time = [&](double bytes) { return curve.time(Bytes{std::llround(bytes)}); };
  const auto is_of = [&](const Probe& p) {
    return p.family == ProbeFamily::Collective && p.collective == curve.kind && p.scope == curve.scope &&
           p.group_ranks == curve.num_ranks;
  };
  add_points(plot,
             {is_of, [](const Probe& p) { return double(p.bytes.count); },
              [&](const Probe& p) { return curve.time(p.bytes); }, factor},
             samples, curve.quality);
  add_line(plot, double(std::max<std::int64_t>(1, curve.least.count)),
           double(std::max<std::int64_t>(2, curve.most.count)), factor, time);
  return plot;
}

}  // namespace

std::vector<FitPlot> fit_plots(const Profile& profile) {
  std::vector<FitPlot> out;
  if (!profile.measured) return out;
  const std::vector<Sample> samples = samples_of(profile);
  for (const MeasurementsAtRanks& load : profile.measured->loads) {
    for (const GemmSurface& surface : load.gemm) out.push_back(gemm_plot(surface, load, samples));
    for (const KernelRate& rate : load.kernels) out.push_back(kernel_plot(rate, load.num_ranks, samples));
    for (const AttentionRate& rate : load.attention) out.push_back(attention_plot(rate, load.num_ranks, samples));
  }
  for (const CollectiveCurve& curve : profile.measured->collectives) out.push_back(collective_plot(curve, samples));
  std::erase_if(out, [](const FitPlot& plot) { return plot.points.empty() && plot.curve.empty(); });
  return out;
}

namespace {

constexpr int kRows = 13, kWidestPlot = 76, kNarrowestPlot = 24;
constexpr int kDotsAcross = 2, kDotsDown = 4;  // of a braille character

/// Names what stands in a cell; where several fall into one, the later of these is seen.
enum class Mark : unsigned char { None, Fitted, Measured, Both, Outlier, Count };

struct Look {
  std::string_view unicode, ascii;
  Ink ink;
};
constexpr Look kMarkLooks[]{{" ", " ", Ink::Plain},
                            {"+", "+", Ink::Accent},
                            {"•", "o", Ink::Plain},
                            {"⊕", "*", Ink::Plain},
                            {"×", "x", Ink::Bad}};
static_assert(std::size(kMarkLooks) == std::size_t(Mark::Count));

std::string look_of(Mark mark, const Screen& screen) {
  const Look& look = kMarkLooks[std::size_t(mark)];
  return paint(screen.has_unicode ? look.unicode : look.ascii, look.ink, screen);
}

/// The character with these dots; bit 4 x + y is the dot in column x and row y from above. Source: Unicode, U+2800 to
/// U+28FF.
std::string braille(unsigned dots) {
  constexpr unsigned kBits[]{0x01, 0x02, 0x04, 0x40, 0x08, 0x10, 0x20, 0x80};
  unsigned code = 0x2800;
  for (unsigned i = 0; i < 8; ++i)
    if (dots >> i & 1U) code |= kBits[i];
  return {char(0xE2), char(0x80 | (code >> 6 & 0x3F)), char(0x80 | (code & 0x3F))};
}

struct Grid {
  int width = kWidestPlot;
  LogAxis x, y;
  std::vector<unsigned> dots;
  std::vector<Mark> marks;

  Grid(int columns, LogAxis across, LogAxis up)
      : width(columns),
        x(across),
        y(up),
        dots(std::size_t(columns * kRows)),
        marks(std::size_t(columns * kRows)) {}
  std::size_t cell(int column, int row) const { return std::size_t(row * width + column); }
  int column(double value) const {
    return std::min(width - 1, narrow<int>(std::lround(std::trunc(x.share(value) * width))));
  }
  int row(double value) const {
    return std::min(kRows - 1, narrow<int>(std::lround(std::trunc((1 - y.share(value)) * kRows))));
  }
};

LogAxis axis_over(const FitPlot& plot, bool is_x) {
  std::vector<double> values;
  for (const PlotPoint& p : plot.points) values.push_back(is_x ? p.x : p.y);
  for (const FitPlotPoint& p : plot.curve) values.push_back(is_x ? p.x : p.y);
  std::erase_if(values, [](double v) { return !(v > 0) || !std::isfinite(v); });
  return axis_of(values, is_x ? plot.x_unit : plot.y_unit);
}

void put_marks(Grid& grid, const FitPlot& plot) {
  const auto put = [&](double x, double y, Mark mark) {
    Mark& there = grid.marks[grid.cell(grid.column(x), grid.row(y))];
    const bool meet =
        (there == Mark::Fitted && mark == Mark::Measured) || (there == Mark::Both && mark == Mark::Measured);
    there = meet ? Mark::Both : std::max(there, mark);
  };
  if (plot.style == CurveStyle::Marks)
    for (const FitPlotPoint& p : plot.curve) put(p.x, p.y, Mark::Fitted);
  for (const PlotPoint& p : plot.points) put(p.x, p.y, p.is_outlier ? Mark::Outlier : Mark::Measured);
}

/// Dots from one point of the line to the next, close enough that none is left out.
void put_line(Grid& grid, const std::vector<FitPlotPoint>& curve) {
  const int across = grid.width * kDotsAcross, down = kRows * kDotsDown;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const double x0 = grid.x.share(curve[i - 1].x) * (across - 1), x1 = grid.x.share(curve[i].x) * (across - 1);
    const double y0 = (1 - grid.y.share(curve[i - 1].y)) * (down - 1), y1 = (1 - grid.y.share(curve[i].y)) * (down - 1);
    const int steps = narrow<int>(std::lround(std::ceil(std::max(std::abs(x1 - x0), std::abs(y1 - y0))))) + 1;
    for (int s = 0; s <= steps; ++s) {
      const int dx = narrow<int>(std::lround(x0 + (x1 - x0) * s / steps)),
                dy = narrow<int>(std::lround(y0 + (y1 - y0) * s / steps));
      grid.dots[grid.cell(dx / kDotsAcross, dy / kDotsDown)] |= 1U << (dx % kDotsAcross * kDotsDown + dy % kDotsDown);
    }
  }
}

std::string cell_text(unsigned dots, Mark mark, const Screen& screen) {
  if (mark != Mark::None) return look_of(mark, screen);
  if (dots == 0) return " ";
  return paint(screen.has_unicode ? braille(dots) : "-", Ink::Accent, screen);
}

std::string row_text(const Grid& grid, int row, const Screen& screen) {
  std::string out, spaces;
  for (int c = 0; c < grid.width; ++c) {
    const std::string text = cell_text(grid.dots[grid.cell(c, row)], grid.marks[grid.cell(c, row)], screen);
    if (text == " ") {
      spaces += text;
      continue;
    }
    out += spaces + text;
    spaces.clear();
  }
  return out;
}

/// A label for every row that has a mark, else "".
std::vector<std::string> row_labels(const Grid& grid) {
  std::vector<std::string> out(kRows);
  for (const AxisMark& mark : axis_marks(grid.y, kRows / 2)) out[std::size_t(grid.row(mark.value))] = mark.label;
  return out;
}

/// Labels that do not touch, each beginning at its column.
std::string column_labels(const Grid& grid) {
  constexpr int kLabelWidth = 12;
  std::string line;
  for (const AxisMark& mark : axis_marks(grid.x, grid.width / kLabelWidth)) {
    const int column = grid.column(mark.value);
    if (!line.empty() && column <= width_of(line) + 1) continue;
    line = pad_right(line, column) + "|" + mark.label;
  }
  return line;
}

Grid grid_of(const FitPlot& plot, const Screen& screen, int label_room) {
  Grid grid(std::clamp(screen.width - label_room, kNarrowestPlot, kWidestPlot), axis_over(plot, true),
            axis_over(plot, false));
  put_marks(grid, plot);
  if (plot.style == CurveStyle::Line) put_line(grid, plot.curve);
  return grid;
}

}  // namespace

std::string plot_text(const FitPlot& plot, const Screen& screen) {
  if (plot.points.empty() && plot.curve.empty()) return "";
  constexpr int kLabelWidth = 12, kMargin = 2;
  const std::string bar = screen.has_unicode ? "│" : "|", tick = screen.has_unicode ? "┤" : "+";
  const Grid grid = grid_of(plot, screen, kLabelWidth + kMargin + 2);
  const std::vector<std::string> labels = row_labels(grid);
  std::string out = heading(plot.title, screen);
  for (int row = 0; row < kRows; ++row) {
    const std::string& label = labels[std::size_t(row)];
    out += paint(pad_left(label, kLabelWidth + kMargin) + " " + (label.empty() ? bar : tick), Ink::Faint, screen) +
           row_text(grid, row, screen) + "\n";
  }
  const std::string indent(std::size_t(kLabelWidth + kMargin + 2), ' ');
  out += indent + paint(column_labels(grid), Ink::Faint, screen) + "\n";
  return out +
         wrap(fmt::format("{} over {}; {}", plot.y_label, plot.x_label, plot.note.empty() ? "no samples" : plot.note),
              prose_width(screen), "  ", "  ");
}

std::string plots_text(const std::vector<FitPlot>& plots, const Screen& screen) {
  std::string out;
  for (const FitPlot& plot : plots) out += plot_text(plot, screen);
  if (out.empty()) return out;
  return out + fmt::format("\n  {} measured   {} fitted   {} both in one place   {} outlier   line: fitted\n",
                           look_of(Mark::Measured, screen), look_of(Mark::Fitted, screen), look_of(Mark::Both, screen),
                           look_of(Mark::Outlier, screen));
}

}  // namespace gpuplan
