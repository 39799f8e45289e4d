// The learning rate of each step, and the metrics of a run as JSON lines: {"step", "loss", "grad_norm", "lr",
// "tokens_per_second", "step_seconds", "memory_bytes"}.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file_lock.h"
#include "base/units.h"

namespace gpuplan {

/// One optimizer step, counted from 1.
struct StepMetrics {
  std::int64_t step{};
  double loss{}, grad_norm{}, lr{}, tokens_per_second{};
  Seconds duration;
  Bytes memory;
};

/// Appends a line per step, at once. Opened on rank 0 alone, and locked: lines of two runs would mix.
class MetricsFile {
 public:
  /// `first_step`: lines of this and later steps, and what a crash or a power loss left of others, are taken out first:
  /// a resumed run writes each step once. The file is rewritten atomically, and made when it is not there. Throws
  /// InputError for a file of something else, EnvError where another run holds it. A pipe or device is only written to.
  MetricsFile(const std::filesystem::path& file, std::int64_t first_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  /// Throws EnvError when it cannot be written, also because the file was renamed or removed.
  void add(const StepMetrics& metrics);
  /// Flushes added lines to the disk. Throws EnvError.
  void sync();

 private:
  [[noreturn]] void fail(const char* what, int reason) const;
  std::filesystem::path file_;
  std::optional<FileLock> lock_;  // none where it is a pipe or a device
  int out_ = -1;                  // the lock's, else our own
};

// The learning rate of a step. Source: transformers optimization.py, get_constant/linear/cosine_schedule_with_warmup.

enum class LrSchedule : std::uint8_t { Constant, Linear, Cosine };
inline constexpr std::array kLrSchedules{LrSchedule::Constant, LrSchedule::Linear, LrSchedule::Cosine};
std::string_view to_string(LrSchedule schedule);  // "constant", "linear", "cosine"
/// Throws InputError naming `where`.
LrSchedule parse_lr_schedule(std::string_view text, std::string_view where);

struct LearningRate {
  double peak = 2e-4;
  LrSchedule schedule = LrSchedule::Constant;
  std::int64_t warmup_steps = 0, total_steps = 1;
  /// Learning rate of optimizer step `step`, counted from 0.
  double at(std::int64_t step) const;
};

}  // namespace gpuplan
