// Counters of the work that this process has done. They are the same on every machine, so that limits are stated and
// tested in them; seconds are not (docs/limits.md).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace gpuplan {

enum class Work : std::uint8_t {
  Bytes,         // of files, read
  Instructions,  // of step programs, built or walked by a reader
  Events,        // of simulations
  Count
};
constexpr int kNumWorks = int(Work::Count);
std::string_view to_string(Work work);

using WorkCounts = std::array<std::int64_t, std::size_t(kNumWorks)>;

/// Adds to what all threads have done. Called for a piece of a file, a row, a pass or a simulation.
void count_work(Work work, std::int64_t amount);

/// Counts since the process began.
WorkCounts work_counts();

}  // namespace gpuplan
