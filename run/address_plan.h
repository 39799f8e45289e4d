// Where everything that lives for a part of the step lies in one arena. The step program is known before it runs, so addresses are
// chosen once and nothing is allocated while training.
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

/// Lifetimes that meet in time do not meet in memory. The largest first, each at the lowest address free for its time; what a
/// caching allocator does at run time, with the future known. Within a few per cent of the sum of what lives at once.
AddressPlan plan_addresses(const std::vector<Lifetime>& lifetimes);

/// The highest sum of what lives at once: the least any arena can be.
Bytes peak_of(const std::vector<Lifetime>& lifetimes);

}  // namespace gpuplan
