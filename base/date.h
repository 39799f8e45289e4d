// Today, as people and files write it, and how long something takes.
#pragma once

#include <string>

namespace gpuplan {

/// strftime's `format` of the local time.
std::string today(const char* format = "%F");

/// Reads a clock that runs evenly, so that a difference says how long something took. Given surroundings have one that
/// stands.
double clock_seconds();

}  // namespace gpuplan
