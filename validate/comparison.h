// A measured figure beside the predicted one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpuplan {

/// The tier of memory that a metric reads.
enum class MemoryTier : std::uint8_t { Tensors, Reserved, Process };

/// One figure of a point, in the point's own unit (GiB for memory).
struct Comparison {
  std::string metric;
  double measured{}, predicted{};
  std::optional<MemoryTier> tier;  // of a memory figure
  double error() const { return predicted / measured - 1; }
};

}  // namespace gpuplan
