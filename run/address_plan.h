// Where everything that lives for a part of the step lies in an arena. The step program is known before it runs, so
// addresses are chosen once and nothing is allocated while training.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace gpuplan {

/// Memory needed from event `begin` to before event `end` of the step.
struct Lifetime {
  Bytes bytes;
  std::uint32_t begin{}, end{};
};

struct AddressPlan {
  std::vector<Bytes> offsets;  // of each lifetime, aligned to kArenaAlignment
  Bytes size;                  // of the arena
};

inline constexpr std::int64_t kArenaAlignment = 64;  // bytes: a cache line, and the widest vector

/// Lifetimes that meet in time do not meet in memory. One after the other gets the lowest or the tightest place free
/// for its time, the largest, longest or bulkiest first; then the order is disturbed where the arena is highest, until
/// it is within 2 % of the least possible or a tenth of a second is spent. The same on every machine.
AddressPlan plan_addresses(const std::vector<Lifetime>& lifetimes);

/// The highest sum of what lives at once: the least any arena can be; and the event at which it is reached first.
Bytes peak_of(const std::vector<Lifetime>& lifetimes);
std::uint32_t instant_of_peak(const std::vector<Lifetime>& lifetimes);

}  // namespace gpuplan
