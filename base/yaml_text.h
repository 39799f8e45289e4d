// Numbers and texts as base/yaml_file reads them back, to the last bit.
#pragma once

#include <string>
#include <string_view>

#include "base/units.h"

namespace gpuplan {

/// `value` x 10^-`exponent` in the fewest digits: decimal(1.06e10, 9) is "10.6". Requires: finite.
std::string decimal(double value, int exponent = 0);

std::string in_gb_s(BytesPerSec rate);    // for keys that end in _gb_s
std::string in_gbit_s(BytesPerSec rate);  // _gbit_s
std::string in_tflops(FlopsPerSec rate);  // _tflops
std::string in_us(Seconds time);          // _us
std::string in_mib(Bytes amount);         // _mib
std::string in_gib(Bytes amount);         // _gib

/// In double quotes, on one line.
std::string in_quotes(std::string_view text);

}  // namespace gpuplan
