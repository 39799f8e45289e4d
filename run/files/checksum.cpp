#include "run/files/checksum.h"

#include <algorithm>
#include <cstring>

namespace gpuplan {
namespace {

constexpr std::uint64_t kBasis = 0xcbf29ce484222325U, kPrime = 0x100000001b3U;

std::uint64_t step(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * kPrime;
  return hash ^ (hash >> 32);
}

}  // namespace

Checksum::Checksum() : lanes_{kBasis, kBasis + 1, kBasis + 2, kBasis + 3} {}

void Checksum::add_block(const std::byte* block) {
  std::array<std::uint64_t, 4> words{};
  std::memcpy(words.data(), block, kBlock);
  for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = step(lanes_[i], words[i]);
}

void Checksum::add(std::span<const std::byte> piece) {
  size_ += piece.size();
  if (num_rest_ > 0) {
    const std::size_t taken = std::min(kBlock - num_rest_, piece.size());
    std::copy_n(piece.begin(), taken, rest_.begin() + std::ptrdiff_t(num_rest_));
    num_rest_ += taken;
    piece = piece.subspan(taken);
    if (num_rest_ < kBlock) return;
    add_block(rest_.data());
    num_rest_ = 0;
  }
  for (; piece.size() >= kBlock; piece = piece.subspan(kBlock)) add_block(piece.data());
  std::ranges::copy(piece, rest_.begin());
  num_rest_ = piece.size();
}

std::uint64_t Checksum::value() const {
  std::uint64_t hash = step(kBasis, size_);
  for (const std::uint64_t lane : lanes_) hash = step(hash, lane);
  for (std::size_t i = 0; i < num_rest_; ++i) hash = step(hash, std::uint64_t(rest_[i]));
  return hash;
}

std::uint64_t checksum(std::span<const std::byte> data) {
  Checksum sum;
  sum.add(data);
  return sum.value();
}

}  // namespace gpuplan
