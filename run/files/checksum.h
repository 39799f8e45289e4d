// A checksum of large memory, against damage on disks and in transfers; not against malice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpuplan {

/// FNV-1a over eight-byte words in four lanes, each step's high half folded into its low one, so that every bit of a word reaches the
/// end; the rest byte by byte. Changing one word always changes it. Source of the constants: Fowler, Noll and Vo, FNV-1a 64.
std::uint64_t checksum(std::span<const std::byte> data);

}  // namespace gpuplan
