// The metrics of a run as JSON lines: {"step", "loss", "grad_norm", "lr", "tokens_per_second", "step_seconds",
// "memory_bytes"}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/units.h"

namespace gpuplan {

/// One optimizer step, counted from 1.
struct StepMetrics {
  std::int64_t step{};
  double loss{}, grad_norm{}, lr{}, tokens_per_second{};
  Seconds duration;
  Bytes memory;
};

/// Appends a line per step, flushed. Opened on rank 0 alone.
class MetricsFile {
 public:
  /// `first_step`: lines of this and later steps, and a last line that was cut off, are taken out first: a resumed run
  /// writes each step once. The file is rewritten atomically, and made when it is not there. Throws InputError for a
  /// file of something else.
  MetricsFile(const std::filesystem::path& file, std::int64_t first_step);
  void add(const StepMetrics& metrics);  // throws EnvError when it cannot be written

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace gpuplan
