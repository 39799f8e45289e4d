// A file as read-only memory: only what is touched is read, and what was touched can be given back.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace gpuplan {

/// Copies share the mapping; the last one ends it.
class FileMapping {
 public:
  FileMapping() = default;
  /// Throws InputError naming the file when it cannot be read.
  explicit FileMapping(const std::filesystem::path& file);
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> keeper_;
  std::span<const std::byte> bytes_;
};

/// Takes the pages of a mapping, or a part of one, out of this process's resident memory; touching them again brings them back.
/// Requires: memory of a FileMapping.
void forget_pages(std::span<const std::byte> mapped);

}  // namespace gpuplan
