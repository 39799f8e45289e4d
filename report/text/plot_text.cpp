#include "report/text/plot_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/text/facts.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

constexpr int kRows = 13, kWidestPlot = 76, kNarrowestPlot = 24;
constexpr int kDotsAcross = 2, kDotsDown = 4;  // of a braille character

/// What stands in a cell; where several fall into one, the later of these is seen.
enum class Mark : unsigned char { None, Fitted, Measured, Both, Outlier, Count };

struct Look {
  std::string_view unicode, ascii;
  Ink ink;
};
constexpr Look kLooks[]{{" ", " ", Ink::Plain},
                        {"+", "+", Ink::Accent},
                        {"•", "o", Ink::Plain},
                        {"⊕", "*", Ink::Plain},
                        {"×", "x", Ink::Bad}};
static_assert(std::size(kLooks) == std::size_t(Mark::Count));

std::string look_of(Mark mark, const Screen& screen) {
  const Look& look = kLooks[std::size_t(mark)];
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
  int column(double value) const { return std::min(width - 1, int(x.share(value) * width)); }
  int row(double value) const { return std::min(kRows - 1, int((1 - y.share(value)) * kRows)); }
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
    const int steps = int(std::ceil(std::max(std::abs(x1 - x0), std::abs(y1 - y0)))) + 1;
    for (int s = 0; s <= steps; ++s) {
      const int dx = int(std::lround(x0 + (x1 - x0) * s / steps)), dy = int(std::lround(y0 + (y1 - y0) * s / steps));
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
