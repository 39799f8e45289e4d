// The folder that a run writes its checkpoints and its adapter or model to.
#pragma once

#include <filesystem>
#include <optional>

#include "base/file_lock.h"

namespace gpuplan {

/// Made, locked against other runs, proven writable, and freed of the temporary files that killed runs left: before the
/// first step, so that hours of training cannot end at a folder that takes nothing. Rank 0 alone holds it. Unlocked at
/// the end; a folder that it made and that is still empty is removed.
class OutputFolder {
 public:
  /// Throws EnvError: the folder cannot be made or written to, the disk is full, another run holds it.
  explicit OutputFolder(std::filesystem::path path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  std::filesystem::path path_;
  bool is_made_ = false;  // by this run
  std::optional<FileLock> lock_;
};

}  // namespace gpuplan
