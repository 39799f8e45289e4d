// The folder that a run writes its checkpoints and its adapter or model to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/file_lock.h"

namespace gpuplan {

/// The folder that a path named when the run began. It stays open, and what the run writes there goes through the open
/// descriptor: a folder that gets the name meanwhile, also in the middle of a save, is never written to.
class HeldFolder {
 public:
  /// Throws EnvError when it cannot be opened.
  explicit HeldFolder(std::filesystem::path name);
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;
  /// Leads to the folder itself, wherever it is by now: /proc/self/fd/N, which the kernel resolves to the descriptor.
  const std::filesystem::path& path() const { return path_; }
  /// A file by the same way, where it is below the folder; else as it is.
  std::filesystem::path path_of(const std::filesystem::path& file) const;
  int file() const { return file_; }
  bool is_same() const;
  /// Throws EnvError where the name leads to another folder by now, or to none: it was renamed, removed or mounted
  /// over.
  void require_same() const;
  /// Throws the error that is handled, about something below path(), again: it calls the folder by its name.
  [[noreturn]] void rethrow_named() const;

 private:
  std::string with_name(std::string text) const;
  std::filesystem::path name_, path_;
  int file_ = -1;
};

/// Made, locked against other runs, proven writable, and freed of the temporary files that killed runs left: before the
/// first step, so that hours of training cannot end at a folder that takes nothing. Rank 0 alone holds it. Unlocked at
/// the end; a folder that it made and that is still empty is removed. The folder itself is locked as well as its lock's
/// file, where the file system can lock folders (NFS cannot): people remove lock files.
class OutputFolder {
 public:
  /// `run` is written to the lock's file. Throws EnvError: the folder cannot be made or written to, the disk is full,
  /// another run holds it, or ranks of a run that has ended still do.
  OutputFolder(std::filesystem::path path, std::int64_t run);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  const HeldFolder& held() const { return *held_; }
  /// Throws EnvError where the lock's file was removed or replaced: another run may have begun.
  void require_locked() const;

 private:
  void remove_if_made() const;
  std::filesystem::path path_;
  bool is_made_ = false;  // by this run
  std::optional<HeldFolder> held_;
  std::optional<FileLock> lock_;
};

/// Reads which run rank 0 has signed the folder's lock for; nothing where there is no lock.
std::optional<std::int64_t> run_that_holds(const std::filesystem::path& folder);

/// Another rank's mark in the folder for as long as it may write there. A launcher can be killed and started again
/// before its ranks are gone: the next run waits for them, and names them where they stay.
class RankMark {
 public:
  RankMark(const std::filesystem::path& folder, std::int64_t rank);
  ~RankMark();
  RankMark(const RankMark&) = delete;
  RankMark& operator=(const RankMark&) = delete;

 private:
  int file_ = -1;
};

}  // namespace gpuplan
