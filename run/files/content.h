// What files hold, told by a few hexadecimal digits: a run that goes on must find the weights and data that it began
// with, wherever they lie now.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace gpuplan {

/// Sample: of a file beyond 16 MiB, 256 pieces of 64 KiB spread evenly from its first byte to its last. It sees another
/// training, quantisation or order of the data, and not a single byte changed by hand.
enum class ContentReach : std::uint8_t { Sample, AllBytes };

/// Digest of the size and the bytes of one file, not of its name. Throws InputError when it cannot be read.
std::string content_digest(const std::filesystem::path& file, ContentReach reach);

/// Digest of the safetensors files that TensorFiles would read in a model's folder: their names and contents. Throws
/// InputError when there are none.
std::string weights_digest(const std::filesystem::path& folder, ContentReach reach);

}  // namespace gpuplan
