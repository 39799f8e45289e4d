#include "run/files/content.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include <fmt/format.h>

#include "base/sha256.h"
#include "rows/file_access.h"
#include "run/files/rank_state.h"
#include "run/files/tensor_files.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSamplePiece = 64 << 10, kSamplePieces = 256;  // bytes; of a sample

void add_piece(Checksum& sum, const FileMapping& file, std::size_t begin, std::size_t size) {
  const auto piece = file.bytes().subspan(begin, std::min(size, file.bytes().size() - begin));
  sum.add(piece);
  file.forget(piece);
}

}  // namespace

std::string content_digest(const fs::path& path, ContentReach reach) {
  const FileMapping file(path);
  const std::size_t size = file.bytes().size();
  Checksum sum;
  if (reach == ContentReach::AllBytes || size <= kSamplePiece * kSamplePieces) {
    constexpr std::size_t kAtOnce = 16 << 20;
    for (std::size_t begin = 0; begin < size; begin += kAtOnce) add_piece(sum, file, begin, kAtOnce);
  } else {
    for (std::size_t i = 0; i < kSamplePieces; ++i)
      add_piece(sum, file, (size - kSamplePiece) / (kSamplePieces - 1) * i, kSamplePiece);
    add_piece(sum, file, size - kSamplePiece, kSamplePiece);
  }
  return fmt::format("{}:{:016x}", size, sum.value());
}

std::string weights_digest(const fs::path& folder, ContentReach reach) {
  const TensorFiles tensors(folder);
  std::set<fs::path> files;
  for (const auto& [name, tensor] : tensors.all()) files.insert(tensor.file);
  std::string all;
  for (const fs::path& file : files)
    all += fmt::format("{} {}\n", file.filename().string(), content_digest(file, reach));
  return sha256_hex(all).substr(0, 16);
}

}  // namespace gpuplan
