// Large files as streams, in flat memory: read piece by piece, and unpacked where gzip packed them.
#pragma once

#include <filesystem>
#include <istream>
#include <memory>

namespace gpuplan {

/// Throws InputError as InputFile does, and while it is read for a packed file that is damaged.
std::unique_ptr<std::istream> open_stream(const std::filesystem::path& path);

}  // namespace gpuplan
