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
  /// Takes a part, and what the system brought in around it, out of this process's resident memory. Touching it brings
  /// it back.
  void forget(std::span<const std::byte> part) const;

 private:
  std::shared_ptr<void> keeper_;
  std::span<const std::byte> bytes_;
};

}  // namespace gpuplan
