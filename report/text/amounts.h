// Amounts that base/unit_text has no text for: rates, times as short as a table needs them, and the marks of a
// logarithmic axis.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "planner/accuracy.h"
#include "planner/strategy_estimate.h"
#include "report/text/screen.h"

namespace gpuplan {

std::string format_rate(BytesPerSec rate);  // "768 GB/s"
std::string format_rate(FlopsPerSec rate);  // "155 TFLOP/s"

/// One number and one unit: "312 ms", "51.3 min", "3.42 h", "12.1 d".
std::string format_short_duration(Seconds time);
/// The same in the unit in which `other` is written ("0.72 min" beside "1.67 min"), unless they are far apart.
std::string format_duration_beside(Seconds other, Seconds time);

/// An amount and its ends: "21.3 GiB (19.5-23.1)", "1.23 s (0.84-1.48)"; the amount alone without a range.
std::string with_range(Bytes amount, const std::optional<AccuracyRange>& range);
std::string with_range(Seconds time, const std::optional<AccuracyRange>& range);  // "6.20 h (5.46-8.80)"
/// "1.79 d to 2.75 d": both ends in one unit.
std::string range_text(Seconds low, Seconds high);
std::string usd_with_range(double usd,
                           const std::optional<AccuracyRange>& range);  // "$2.77 ($2.20-$3.31)", "$199.14 ($172-$239)"

/// The colour of a verdict.
Ink ink_of(Fit fit);
/// "yes 93 %": the verdict, and the probability that it stands for; "yes" and "no" alone where that is certain.
std::string verdict_text(const StrategyEstimate& e);

/// Names what a value on an axis counts.
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
