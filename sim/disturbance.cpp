#include "sim/disturbance.h"

#include <algorithm>

#include "base/random_bits.h"

namespace gpuplan {
namespace {

/// Nearly normal, mean 0, deviation 1: the sum of twelve uniform numbers less 6.
double normal(std::uint64_t state) {
  double sum = 0;
  for (int k = 0; k < 12; ++k) {
    state = random_bits(state);
    sum += double(state >> 11) * 0x1p-53;
  }
  return sum - 6;
}

}  // namespace

double straggler_factor(const SimOptions& options, std::int64_t rank) {
  double factor = 1;
  for (const auto& [slow, times] : options.stragglers)
    if (slow == rank) factor *= times;
  return factor;
}

double jitter_factor(const SimOptions& options, std::int64_t rank, std::uint32_t task) {
  if (options.jitter <= 0) return 1;
  const std::uint64_t key = random_bits(options.seed) ^ random_bits(std::uint64_t(rank) << 32 | task);
  return std::max(0.1, 1 + options.jitter * normal(key));
}

}  // namespace gpuplan
