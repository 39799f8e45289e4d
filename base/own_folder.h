// A folder that one process has to itself while it lives, and that goes with it, however it ends.
#pragma once

#include <filesystem>

namespace gpuplan {

/// ".gpuplan-process-x7Qp2a" in a folder that others use too, for this user alone (mode 700), locked while this lives.
/// Before it is made, those of processes that were killed are removed: they have such a name, belong to this user, and
/// nobody holds their lock.
class OwnFolder {
 public:
  /// Throws EnvError where it cannot be made.
  explicit OwnFolder(const std::filesystem::path& in);
  ~OwnFolder();  // with all that is in it
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;  // the folder, open
};

/// $TMPDIR or /tmp. Throws EnvError where that is no folder.
std::filesystem::path temporary_folder();

/// /dev/shm, or where the system keeps temporary files when it has none.
std::filesystem::path shared_memory_folder();

}  // namespace gpuplan
