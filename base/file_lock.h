// A file that one process at a time holds: a journal is written by one calibration, an output folder by one run.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace gpuplan {

class FileLock {
 public:
  /// Opens or creates the file, never through a link, and locks it (flock). Throws EnvError where it cannot, and
  /// "PATH is in use by process N: WHOSE" when another process holds it.
  FileLock(std::filesystem::path path, std::string_view whose);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  int file() const { return file_; }  // open for appending
  /// Says whether the file still has its name; somebody may have removed or replaced it.
  bool is_in_place() const;
  /// Removes the file while it is held: a process that waits for it makes its own.
  void remove() const;

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

/// A file whose content comes at the end of long work: it is locked, and made where it was not there, until it is
/// replaced by write_file_atomically. One that this made and left empty is removed. A pipe or device is nobody's alone.
class ReservedFile {
 public:
  /// Throws EnvError where the file could not be made or replaced, or another process has reserved it.
  ReservedFile(const std::filesystem::path& path, std::string_view whose);
  ~ReservedFile();
  ReservedFile(const ReservedFile&) = delete;
  ReservedFile& operator=(const ReservedFile&) = delete;

 private:
  std::optional<FileLock> lock_;
  bool is_made_ = false;  // by this process
};

}  // namespace gpuplan
