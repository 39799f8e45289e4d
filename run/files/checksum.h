// A checksum of large memory, against damage on disks and in transfers; not against malice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

/// FNV-1a over eight-byte words in four lanes, each step's high half folded into its low one, so that every bit of a
/// word reaches the end; the rest byte by byte. Changing one word always changes it. Source of the constants: Fowler,
/// Noll and Vo, FNV-1a 64.
class Checksum {
 public:
  Checksum();
  /// The same for the same bytes, however they are cut in pieces.
  void add(std::span<const std::byte> piece);
  std::uint64_t value() const;

 private:
  static constexpr std::size_t kBlock = 32;  // bytes: a word of each lane
  void add_block(const std::byte* block);
  std::array<std::uint64_t, 4> lanes_;
  std::array<std::byte, kBlock> rest_{};  // behind the last whole block
  std::size_t num_rest_ = 0;
  std::uint64_t size_ = 0;
};

std::uint64_t checksum(std::span<const std::byte> data);

}  // namespace gpuplan
