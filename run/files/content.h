// What files hold, told by a few hexadecimal digits: a run that goes on must find the weights and data that it began
// with, wherever they lie now.
#pragma once

#include <filesystem>
#include <string>

namespace gpuplan {

/// Digest of the size and every byte of one file, not of its name: as fast as memory or the disk hands them out. Throws
/// InputError when it cannot be read.
std::string content_digest(const std::filesystem::path& file);

/// Digest of the safetensors files that TensorFiles would read in a model's folder: their names and contents. Throws
/// InputError when there are none.
std::string weights_digest(const std::filesystem::path& folder);

}  // namespace gpuplan
