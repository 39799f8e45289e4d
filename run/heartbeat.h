// How a supervisor sees that every rank is alive: a small file in shared memory that each rank writes to, twice a
// second.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/own_folder.h"
#include "base/units.h"

namespace gpuplan {

inline constexpr const char* kHeartbeatVariable = "GPUPLAN_HEARTBEAT";
inline constexpr const char* kStepPatienceVariable = "GPUPLAN_STEP_PATIENCE";  // seconds: StepWatch's least

class BeatFile;

/// The head of the file.
struct FirstWord {
  std::atomic<std::int64_t> rank;  // + 1 of the first that failed, 0: none has
};

/// One rank's place in the file.
struct Beat {
  std::atomic<std::int64_t> nanoseconds;  // of the steady clock, 0: not begun
  std::atomic<std::int64_t> step;         // below 0: it saves after that step
  std::atomic<std::int64_t> process;
  std::atomic<std::int64_t> was_signalled;  // 1: somebody asked it to end
};

/// Notices that a run goes on without taking steps: ranks that wait for each other beat all the same.
class StepWatch {
 public:
  explicit StepWatch(Seconds least = {600}) : least_(least) {}
  /// `step` is the lowest of all ranks at `now`. Returns what to say once that has not changed for `least` and for
  /// kMedians times the median of the steps before; empty otherwise. The first step and a checkpoint may take kLong,
  /// loading any time.
  std::string look(std::int64_t step, Seconds now);
  static constexpr Seconds kLong{6 * 3600};
  static constexpr double kMedians = 100;

 private:
  Seconds least_;
  Seconds median() const;
  std::optional<std::int64_t> step_;
  Seconds since_;
  std::vector<double> seconds_;  // of the latest steps
};

/// The rank's side. Does nothing where the environment names no file.
class Heartbeat {
 public:
  /// This process then ends with its supervisor, whatever ends that.
  explicit Heartbeat(std::int64_t rank);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  void beat(std::int64_t step);

 private:
  void end_with_supervisor() const;
  int supervisor_ = -1;  // the file, which the supervisor holds locked
  std::shared_ptr<BeatFile> file_;
  Beat* mine_ = nullptr;
  std::atomic<bool> ends_{false};
  std::thread ticker_;
};

/// Says whether this failed rank is the first to fail: that one tells why, and others that fail with it or after it
/// keep quiet until the supervisor ends them. Nothing where there is no supervisor's file.
std::optional<bool> has_first_word(std::int64_t rank);

/// Advice for ranks on CPUs that fail or do not start: shared memory is too small or full. Empty where it is not.
std::string describe_scarce_shared_memory(std::int64_t num_ranks);

/// Notes that this rank was asked to end; a signal handler may call it.
void note_signal() noexcept;

/// The supervisor's side: makes the file, in a folder of its own in shared memory, and removes it at the end.
class HeartbeatFile {
 public:
  /// Throws EnvError, also where shared memory is full, and InputError for a patience that is no number of seconds.
  explicit HeartbeatFile(std::int64_t num_ranks);
  ~HeartbeatFile();
  HeartbeatFile(const HeartbeatFile&) = delete;
  HeartbeatFile& operator=(const HeartbeatFile&) = delete;
  const std::filesystem::path& path() const { return path_; }
  /// Message about the first rank that has been silent for `patience`, or has not begun within `start` after this was
  /// made; empty when there is none.
  std::string silent_rank(Seconds patience, Seconds start) const;
  /// Says that no rank has taken a step for too long; empty otherwise. Callers ask again and again.
  std::string without_progress();
  /// "rank 3 (process 4711)": the one that ended without being asked to, once all have ended. "a rank" where that is
  /// not known of exactly one.
  std::string killed_rank() const;

 private:
  OwnFolder folder_;
  std::filesystem::path path_;
  std::int64_t made_;  // nanoseconds of the steady clock
  int lock_ = -1;      // the file, open and locked while this lives
  std::int64_t num_ranks_;
  std::shared_ptr<BeatFile> file_;
  Seconds patience_;
  StepWatch watch_;
  Seconds asked_;  // when `without_progress` was asked last
};

}  // namespace gpuplan
