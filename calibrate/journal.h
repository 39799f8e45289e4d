// What a calibration has measured so far, on disk: a killed run goes on where it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "cluster/profile/probe.h"

namespace gpuplan {

inline constexpr const char* kOtherCalibration = "another calibration is running";  // of a FileLock

enum class JournalStart : std::uint8_t { Resume, Anew };  // Anew: forgets what it holds, once it is locked

/// Samples as JSON lines, appended one by one. A torn last line (kill -9) is dropped when read.
class Journal {
 public:
  /// Opens or creates. `header` says which machine and libraries the samples are of: a journal of others starts anew.
  /// Throws EnvError, also when another calibration is writing this very journal.
  Journal(std::filesystem::path path, const std::string& header, JournalStart start = JournalStart::Resume);

  const std::vector<Sample>& samples() const { return samples_; }
  void add(const Sample& sample);  // on disk when it returns; throws EnvError
  void remove();                   // the calibration is complete

 private:
  void read(const std::string& header, JournalStart start);

  std::filesystem::path path_;
  FileLock lock_;
  std::vector<Sample> samples_;
};

}  // namespace gpuplan
