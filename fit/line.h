// t = launch + work / rate, robustly: kernels, attention, copies.
#pragma once

#include <optional>
#include <vector>

#include "fit/quality.h"

namespace gpuplan {

struct LinePoint {
  double work{};  // bytes or FLOP
  double time{};  // s
  double noise{};
};

struct Line {
  Fitted launch;           // s
  Fitted rate;             // work per second
  double least{}, most{};  // work for which it was fitted
  FitQuality quality;      // over that range
};

/// The line has to be right where work is large. So where small sizes are off (they run from caches), they are left
/// out, smallest first, but never more than half of the sizes, and three are kept. Nothing for fewer.
std::optional<Line> fit_line(std::vector<LinePoint> points);

}  // namespace gpuplan
