#include "report/html/fit_svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/html/one_file.h"

namespace gpuplan {
namespace {

constexpr double kMargin = 24, kTitleHeight = 84;                   // of the page
constexpr double kPanelWidth = 450, kPanelHeight = 300, kGap = 20;  // of a plot with its axes
constexpr double kLeft = 84, kRight = 14, kTop = 46, kBottom = 44;  // inside a panel, around the chart
constexpr double kChartWidth = kPanelWidth - kLeft - kRight, kChartHeight = kPanelHeight - kTop - kBottom;
constexpr std::size_t kColumns = 3;

constexpr std::string_view kStyle = R"css(<style>
.fits{--back:#fff;--panel:#f5f6f8;--line:#d9dde3;--text:#1b2330;--soft:#5b6675;--fit:#2f6fdb;--point:#1b2330;--bad:#b3261e;color-scheme:light dark}
@media(prefers-color-scheme:dark){.fits{--back:#14181f;--panel:#1d232c;--line:#343c48;--text:#e6e9ee;--soft:#9aa5b4;--fit:#6ea0ff;--point:#e6e9ee;--bad:#ff8a80}}
.fits text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;fill:var(--soft)}
.fits .title{font-size:19px;font-weight:600;fill:var(--text)}.fits .name{font-size:13px;font-weight:600;fill:var(--text)}
.fits .back{fill:var(--back)}.fits .panel{fill:var(--panel)}.fits .grid{stroke:var(--line);stroke-width:1;fill:none}
.fits .fit{stroke:var(--fit);stroke-width:2;fill:none;stroke-linejoin:round}.fits .mark{stroke:var(--fit);stroke-width:1.5;fill:none}
.fits .point{fill:var(--point);fill-opacity:.75}.fits .span{stroke:var(--point);stroke-opacity:.45;stroke-width:1.5}
.fits .out{stroke:var(--bad);stroke-width:2;fill:none}.fits .y{text-anchor:end}.fits .x{text-anchor:middle}
</style>
)css";

/// Coordinates of one chart within its panel.
struct Chart {
  LogAxis x, y;
  double at_x(double value) const { return kLeft + x.share(value) * kChartWidth; }
  double at_y(double value) const { return kTop + (1 - y.share(value)) * kChartHeight; }
};

Chart chart_of(const FitPlot& plot) {
  std::vector<double> xs, ys;
  for (const PlotPoint& p : plot.points) xs.push_back(p.x), ys.insert(ys.end(), {p.y, p.low, p.high});
  for (const FitPlotPoint& p : plot.curve) xs.push_back(p.x), ys.push_back(p.y);
  const auto is_off = [](double v) { return !(v > 0) || !std::isfinite(v); };
  std::erase_if(xs, is_off), std::erase_if(ys, is_off);
  return {axis_of(xs, plot.x_unit), axis_of(ys, plot.y_unit)};
}

constexpr double kCharWidth = 6.4;  // of the marks' font, on average
constexpr double kBase = kTop + kChartHeight, kEnd = kLeft + kChartWidth;

/// Every mark has its line; a label that would touch the one before is left out.
std::string x_axis_svg(const Chart& chart) {
  std::string out;
  double free_from = 0;
  for (const AxisMark& mark : axis_marks(chart.x, 6)) {
    const double x = chart.at_x(mark.value), half = kCharWidth * double(mark.label.size()) / 2;
    out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {}V{}\"/>", x, kTop, kBase);
    if (x - half < free_from) continue;
    out += fmt::format("<text class=\"x\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", x, kBase + 15, mark.label);
    free_from = x + half + kCharWidth;
  }
  return out;
}

std::string y_axis_svg(const Chart& chart) {
  std::string out;
  for (const AxisMark& mark : axis_marks(chart.y, 7)) {
    const double y = chart.at_y(mark.value);
    out += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text class=\"y\" x=\"{}\" y=\"{:.1f}\">{}</text>\n",
                       kLeft, y, kEnd, kLeft - 6, y + 4, mark.label);
  }
  return out;
}

std::string curve_svg(const FitPlot& plot, const Chart& chart) {
  std::string path;
  for (const FitPlotPoint& p : plot.curve) {
    const double x = chart.at_x(p.x), y = chart.at_y(p.y);
    if (plot.style == CurveStyle::Marks)
      path += fmt::format("M{:.1f} {:.1f}h8M{:.1f} {:.1f}v8", x - 4, y, x, y - 4);
    else
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
  }
  return path.empty()
             ? ""
             : fmt::format("<path class=\"{}\" d=\"{}\"/>\n", plot.style == CurveStyle::Marks ? "mark" : "fit", path);
}

std::string point_svg(const PlotPoint& p, const FitPlot& plot, const Chart& chart) {
  const double x = chart.at_x(p.x), y = chart.at_y(p.y);
  const std::string hint =
      fmt::format("{}: {} ({} to {}){}", p.name, mark_label(p.y, plot.y_unit), mark_label(p.low, plot.y_unit),
                  mark_label(p.high, plot.y_unit), p.is_outlier ? ", outlier" : "");
  const std::string shape =
      p.is_outlier ? fmt::format("<path class=\"out\" d=\"M{0:.1f} {1:.1f}l8 8m0 -8l-8 8\"/>", x - 4, y - 4)
                   : fmt::format("<circle class=\"point\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>", x, y);
  return fmt::format("<g><path class=\"span\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>{}<title>{}</title></g>\n", x,
                     chart.at_y(p.low), chart.at_y(p.high), shape, escape_html(hint));
}

std::string panel_svg(const FitPlot& plot, double x, double y) {
  const Chart chart = chart_of(plot);
  std::string out = fmt::format(
      "<g transform=\"translate({:.0f} {:.0f})\"><rect class=\"panel\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"8\"/>\n",
      x, y, kPanelWidth, kPanelHeight);
  out += fmt::format("<text class=\"name\" x=\"12\" y=\"20\">{}</text><text x=\"12\" y=\"36\">{}</text>\n",
                     escape_html(plot.title), escape_html(plot.note.empty() ? "no samples" : plot.note));
  out += x_axis_svg(chart) + y_axis_svg(chart) + curve_svg(plot, chart);
  for (const PlotPoint& p : plot.points) out += point_svg(p, plot, chart);
  return out + fmt::format("<text class=\"y\" x=\"{:.0f}\" y=\"{:.0f}\">{} over {}</text></g>\n", kPanelWidth - kRight,
                           kPanelHeight - 10, escape_html(plot.y_label), escape_html(plot.x_label));
}

std::string legend_svg(double y) {
  return fmt::format(
      "<g transform=\"translate({} {})\"><circle class=\"point\" cx=\"4\" cy=\"-4\" r=\"3\"/><text x=\"14\">measured, "
      "with its 95 % interval</text>"
      "<path class=\"fit\" d=\"M200 -4h22\"/><path class=\"mark\" d=\"M232 -4h8m-4 -4v8\"/><text "
      "x=\"246\">fitted</text>"
      "<path class=\"out\" d=\"M296 -8l8 8m0 -8l-8 8\"/><text x=\"310\">outlier</text></g>\n",
      kMargin, y);
}

}  // namespace

std::string fit_svg(const std::string& title, const std::string& subtitle, const std::vector<FitPlot>& plots) {
  const std::size_t columns = std::clamp<std::size_t>(plots.size(), 1, kColumns),
                    rows = (plots.size() + columns - 1) / columns;
  const double width = 2 * kMargin + double(columns) * (kPanelWidth + kGap) - kGap;
  const double height = kTitleHeight + double(rows) * (kPanelHeight + kGap) - kGap + kMargin;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fits\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\">\n",
      width, height);
  out += fmt::format("<title>{}</title>\n{}<rect class=\"back\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n",
                     escape_html(title), kStyle, width, height);
  out += fmt::format("<text class=\"title\" x=\"{0}\" y=\"32\">{1}</text><text x=\"{0}\" y=\"51\">{2}</text>\n",
                     kMargin, escape_html(title), escape_html(subtitle));
  out += legend_svg(72);
  for (std::size_t i = 0; i < plots.size(); ++i)
    out += panel_svg(plots[i], kMargin + double(i % columns) * (kPanelWidth + kGap),
                     kTitleHeight + double(i / columns) * (kPanelHeight + kGap));
  return out + "</svg>\n";
}

}  // namespace gpuplan
