// Amounts that base/unit_text has no text for: rates, and times as short as a table needs them. Three digits each.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "planner/accuracy.h"

namespace gpuplan {

std::string format_rate(BytesPerSec rate);  // "768 GB/s"
std::string format_rate(FlopsPerSec rate);  // "155 TFLOP/s"

/// One number and one unit: "312 ms", "51.3 min", "3.42 h", "12.1 d".
std::string format_short_duration(Seconds time);

/// An amount and its ends: "21.3 GiB (19.5-23.1)", "1.23 s (0.84-1.48)"; the amount alone without a range.
std::string with_range(Bytes amount, const std::optional<AccuracyRange>& range);
std::string with_range(Seconds time, const std::optional<AccuracyRange>& range);

}  // namespace gpuplan
