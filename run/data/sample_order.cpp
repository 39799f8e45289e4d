#include "run/data/examples.h"

#include <bit>

#include "base/random_bits.h"

namespace gpuplan {
namespace {

constexpr std::uint64_t kRounds =
    6;  // four make a random-looking permutation (Luby and Rackoff 1988); small domains want more

/// A permutation of [0, 4^half_bits): each round xors one half with a keyed function of the other, and swaps them.
std::uint64_t feistel(std::uint64_t index, int half_bits, std::uint64_t key) {
  const std::uint64_t mask = (std::uint64_t(1) << half_bits) - 1;
  std::uint64_t left = index >> half_bits, right = index & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t next = left ^ (random_bits(right ^ random_bits(key + round)) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

std::int64_t SampleOrder::example_at(std::int64_t position) const {
  const std::int64_t epoch = position / num_examples;
  auto index = std::uint64_t(position % num_examples);
  if (!shuffles) return std::int64_t(index);
  // The smallest 4^h that holds all examples is less than four times as large; what falls outside walks on along its
  // cycle, which comes back inside because the index itself is inside.
  const int half_bits = int(std::bit_width(std::uint64_t(num_examples - 1)) + 1) / 2;
  if (half_bits == 0) return 0;
  const std::uint64_t key = random_bits(random_bits(seed) + std::uint64_t(epoch));
  do index = feistel(index, half_bits, key);
  while (index >= std::uint64_t(num_examples));
  return std::int64_t(index);
}

}  // namespace gpuplan
