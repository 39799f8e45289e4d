// A measured figure beside the predicted one.
#pragma once

#include <string>

namespace gpuplan {

/// One figure of a point, in the point's own unit (GiB for memory).
struct Comparison {
  std::string metric;
  double measured{}, predicted{};
  double error() const { return predicted / measured - 1; }
};

}  // namespace gpuplan
