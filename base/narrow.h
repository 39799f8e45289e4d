// Numbers into narrower fields: -Wconversion asks for a cast, and a cast alone wraps around without a word.
#pragma once

#include <utility>

namespace gpuplan {

/// Throws BugError.
[[noreturn]] void fail_to_narrow(const char* file, int line);

/// The whole number `value` as a `To`, which must be able to hold it: whoever took it from outside has refused what is
/// too large. Throws BugError otherwise, in every build.
template <class To, class From>
constexpr To narrow(From value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!std::in_range<To>(value)) [[unlikely]]
    fail_to_narrow(file, line);
  return static_cast<To>(value);
}

}  // namespace gpuplan
