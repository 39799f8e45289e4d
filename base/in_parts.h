// A loop over many elements on all cores of this process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/processor.h"

namespace gpuplan {

/// Calls `run(begin, end)` for consecutive parts of [0, count) that begin at multiples of `least`: one part per usable
/// core, each on a thread of its own, fewer where parts would be shorter than `least`. Returns when all are done. `run`
/// is called at once from several threads and must not throw.
template <class Run>
void in_parts(std::int64_t count, std::int64_t least, const Run& run) {
  const std::int64_t num_units = (count + least - 1) / least;
  const std::int64_t num_parts = std::clamp<std::int64_t>(num_units, 1, num_usable_cores());
  const std::int64_t length = (num_units + num_parts - 1) / num_parts * least;
  std::vector<std::jthread> threads;  // join when they are destroyed
  for (std::int64_t begin = length; begin < count; begin += length)
    threads.emplace_back([&run, begin, end = std::min(count, begin + length)] { run(begin, end); });
  if (count > 0) run(std::int64_t(0), std::min(count, length));
}

}  // namespace gpuplan
