// Today, as people and files write it.
#pragma once

#include <string>

namespace gpuplan {

/// strftime's `format` of the local time.
std::string today(const char* format = "%F");

}  // namespace gpuplan
