// A logarithmic axis of a chart, in a terminal or on a page: where a value stands, and round marks with their units.
#pragma once

#include <string>
#include <vector>

namespace gpuplan {

/// What a value on an axis counts.
enum class PlotUnit : unsigned char { FlopCount, FlopRate, ByteCount, ByteRate };

struct LogAxis {
  double least = 1, most = 10;  // positive
  PlotUnit unit{};

  /// 0 at `least`, 1 at `most`.
  double share(double value) const;
};

/// The values with a little air at both ends. Requires: positive values; none gives an axis from 1 to 10.
LogAxis axis_of(const std::vector<double>& values, PlotUnit unit);

struct AxisMark {
  double value{};
  std::string label;  // "64 MiB", "200 GFLOP/s"
};

/// Powers of two of bytes; 1, 2, 5 times a power of ten of the rest. At most `max_marks`, rising.
std::vector<AxisMark> axis_marks(const LogAxis& axis, int max_marks);

/// "64 MiB", "200 GFLOP/s": as short as it can be.
std::string mark_label(double value, PlotUnit unit);

}  // namespace gpuplan
