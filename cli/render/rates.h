// Rates as text for people: "768 GB/s", "155 TFLOP/s", with three digits.
#pragma once

#include <string>

#include "base/units.h"

namespace gpuplan {

std::string format_rate(BytesPerSec rate);
std::string format_rate(FlopsPerSec rate);

}  // namespace gpuplan
