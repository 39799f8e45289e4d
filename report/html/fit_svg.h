// Charts of fits as one SVG picture: points with their intervals, outliers, fitted lines; light or dark as the reader
// prefers.
#pragma once

#include <string>
#include <vector>

#include "report/text/fit_plot.h"

namespace gpuplan {

/// A page with a title and the plots side by side. Needs nothing from elsewhere; every point has a hint with its probe
/// and value.
std::string fit_svg(const std::string& title, const std::string& subtitle, const std::vector<FitPlot>& plots);

}  // namespace gpuplan
