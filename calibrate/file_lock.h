// A file that one process at a time holds: a journal is written by one calibration, a device measured by one.
#pragma once

#include <filesystem>

namespace gpuplan {

class FileLock {
 public:
  /// Opens or creates the file. Throws EnvError, also when another process holds it.
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  int file() const { return file_; }  // open for appending

 private:
  int file_ = -1;
};

}  // namespace gpuplan
