// A chart of a fit in a terminal: braille dots where the screen has them, ASCII elsewhere.
#pragma once

#include <string>
#include <vector>

#include "report/text/fit_plot.h"
#include "report/text/screen.h"

namespace gpuplan {

/// Title, chart with both axes, how good the fit is. Empty for a plot without anything in it.
std::string plot_text(const FitPlot& plot, const Screen& screen);

/// One after the other, and a legend.
std::string plots_text(const std::vector<FitPlot>& plots, const Screen& screen);

}  // namespace gpuplan
