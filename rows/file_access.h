// Files as memory that is read, and files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace gpuplan {

/// A file being made: under a temporary name beside its own (open_temporary) until it is whole, synced and renamed.
/// Left alone, it vanishes.
class NewFile {
 public:
  /// Reserves room for `bytes`. Throws EnvError naming the file, and what is needed and free when the disk is full; so
  /// does `write`.
  NewFile(std::filesystem::path path, std::int64_t bytes);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Flushes to the disk; what was written is whole.
  void sync();
  /// Gives the file its name. Requires: synced.
  void publish();

 private:
  [[noreturn]] void fail(const char* what, int reason) const;
  std::filesystem::path path_, temporary_;
  std::int64_t bytes_{};
  int file_ = -1;
};

/// Syncs a file, or the names in a folder: renames in it are on the disk. Throws EnvError.
void sync_path(const std::filesystem::path& file_or_folder);

/// A file as read-only memory. Where it is cut off while it is mapped, or its disk fails, the process ends with exit
/// code 3 and a line that names it. Only what is touched is read, and what was touched can be given back. Copies share
/// the mapping; the last one ends it.
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
