// Amounts that base/unit_text has no text for: rates, and times as short as a table needs them. Three digits each.
#pragma once

#include <string>

#include "base/units.h"

namespace gpuplan {

std::string format_rate(BytesPerSec rate);  // "768 GB/s"
std::string format_rate(FlopsPerSec rate);  // "155 TFLOP/s"

/// One number and one unit: "312 ms", "51.3 min", "3.42 h", "12.1 d".
std::string format_short_duration(Seconds time);

}  // namespace gpuplan
