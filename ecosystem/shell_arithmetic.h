// Arithmetic of shell scripts, $(( ... )), on whole numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuplan {

/// The value of "8 * 4 / 2", with + - * / % ** and brackets; nothing when it is no such expression, divides by zero, or
/// leaves 64 bits. Names must be replaced by their values before.
std::optional<std::int64_t> shell_arithmetic(std::string_view expression);

}  // namespace gpuplan
