// The simulator's clock: integer picoseconds, so that sums are exact and two runs are equal to the last digit.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

#include "base/units.h"

namespace gpuplan {

/// A moment or a duration. 2^63 ps are 106 days.
struct SimTime {
  std::int64_t ps{};

  friend constexpr auto operator<=>(SimTime, SimTime) = default;
  friend constexpr SimTime operator+(SimTime a, SimTime b) { return {checked_sum(a.ps, b.ps)}; }
  friend constexpr SimTime operator-(SimTime a, SimTime b) { return {checked_difference(a.ps, b.ps)}; }
  constexpr SimTime& operator+=(SimTime b) {
    ps = checked_sum(ps, b.ps);
    return *this;
  }
  constexpr Seconds seconds() const { return {double(ps) * 1e-12}; }
};

inline constexpr SimTime kNeverTime{std::numeric_limits<std::int64_t>::max()};

/// The one way from seconds to the clock; rounds up, so that nothing takes no time. Throws InputError when the clock
/// ends before it.
inline SimTime to_sim_time(Seconds s) {
  const double ps = std::ceil(s.value * 1e12);
  if (!(ps < 0x1p63)) refuse_overflow();
  return {ps <= 0 ? 0 : std::int64_t(ps)};
}

}  // namespace gpuplan
