// Points from JSON lines. Every mistake names file, line and key; fields that are not ours are left alone.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "validate/point.h"

namespace gpuplan {

inline constexpr std::size_t kLargestPoint = std::size_t(1) << 20;  // bytes

/// One JSON object per line; empty lines are skipped. `name` stands in messages.
/// Throws InputError for a line that is not a point, for two points of one id, and when there is none.
std::vector<Point> parse_points(std::string_view text, const std::string& name);

std::vector<Point> read_points(const std::filesystem::path& file);
std::vector<Point> read_points(std::istream& in, const std::string& name);

}  // namespace gpuplan
