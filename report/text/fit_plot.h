// What calibration measured and what was fitted to it, one chart per fit: rates over sizes, both logarithmic. Drawn
// here for a terminal, in report/html/fit_svg.h for a page.
#pragma once

#include <string>
#include <vector>

#include "cluster/profile/profile.h"
#include "report/text/amounts.h"
#include "report/text/screen.h"

namespace gpuplan {

struct PlotPoint {
  double x{}, y{};
  double low{}, high{};  // 95 % interval of y
  bool is_outlier = false;
  std::string name;  // of the probe
};

struct FitPlotPoint {
  double x{}, y{};
};

/// A fit of one size is a line; a product has three sizes, so its fit is a mark beside each measured one.
enum class CurveStyle : unsigned char { Line, Marks };

struct FitPlot {
  std::string title, x_label, y_label;
  std::string note;  // how far the fit is off
  PlotUnit x_unit{}, y_unit{};
  std::vector<PlotPoint> points;    // rising in x
  std::vector<FitPlotPoint> curve;  // the same
  CurveStyle style = CurveStyle::Line;
};

/// Products by type and layout, kernels, attention, collectives; each load and group on its own. Fits without samples
/// keep their line. Outliers are the samples furthest from the fit, as many as it counted. Throws InputError for a bad
/// sample.
std::vector<FitPlot> fit_plots(const Profile& profile);

/// Title, chart with both axes, how good the fit is. Empty for a plot without anything in it.
std::string plot_text(const FitPlot& plot, const Screen& screen);

/// One after the other, and a legend.
std::string plots_text(const std::vector<FitPlot>& plots, const Screen& screen);

}  // namespace gpuplan
