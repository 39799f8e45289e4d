#include "run/files/checksum.h"

#include <array>
#include <cstring>

namespace gpuplan {
namespace {

constexpr std::uint64_t kBasis = 0xcbf29ce484222325U, kPrime = 0x100000001b3U;

std::uint64_t step(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * kPrime;
  return hash ^ (hash >> 32);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> data) {
  std::array<std::uint64_t, 4> lanes{kBasis, kBasis + 1, kBasis + 2, kBasis + 3}, words{};
  std::size_t at = 0;
  for (; at + sizeof words <= data.size(); at += sizeof words) {
    std::memcpy(words.data(), data.data() + at, sizeof words);
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = step(lanes[i], words[i]);
  }
  std::uint64_t hash = step(kBasis, data.size());
  for (const std::uint64_t lane : lanes) hash = step(hash, lane);
  for (; at < data.size(); ++at) hash = step(hash, std::uint64_t(data[at]));
  return hash;
}

}  // namespace gpuplan
