#include "run/files/content.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>

#include <fmt/format.h>

#include "base/sha256.h"
#include "rows/file_access.h"
#include "run/files/rank_state.h"
#include "run/files/tensor_files.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAtOnce = 16 << 20;  // bytes; what has been read leaves this process's memory

}  // namespace

std::string content_digest(const fs::path& path) {
  const FileMapping file(path);
  const std::span<const std::byte> all = file.bytes();
  Checksum sum;
  for (std::size_t begin = 0; begin < all.size(); begin += kAtOnce) {
    const auto piece = all.subspan(begin, std::min(kAtOnce, all.size() - begin));
    sum.add(piece);
    file.forget(piece);
  }
  return fmt::format("{}:{:016x}", all.size(), sum.value());
}

std::string weights_digest(const fs::path& folder) {
  const TensorFiles tensors(folder);
  std::set<fs::path> files;
  for (const auto& [name, tensor] : tensors.all()) files.insert(tensor.file);
  std::string all;
  for (const fs::path& file : files) all += fmt::format("{} {}\n", file.filename().string(), content_digest(file));
  return sha256_hex(all).substr(0, 16);
}

}  // namespace gpuplan
