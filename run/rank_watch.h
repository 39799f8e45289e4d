// The processes of a job that another program's launcher starts: which are its ranks, and whether one has died. Linux
// only: reads /proc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "run/engine_output.h"

namespace gpuplan {

/// A process that pids alone do not tell apart: a pid is used again.
struct ProcessId {
  pid_t pid = 0;
  unsigned long long start = 0;  // in clock ticks after boot
};

/// Nothing where there is no such process.
std::optional<ProcessId> process_now(pid_t pid);

/// `pid` is not among them.
std::vector<ProcessId> descendants_of(pid_t pid);

/// Sends SIGKILL to those that still run.
void kill_those_left(const std::vector<ProcessId>& processes);

class RankWatch {
 public:
  /// Looks for processes below `launchers` that have RANK in their environment, each rank once; DataLoader's workers
  /// below them are none.
  void find_ranks(const std::vector<pid_t>& launchers);
  /// A rank that has said where it is (gpuplan_metrics.py).
  void add_ranks(const std::map<std::int64_t, RankFile>& said);
  /// Asked again and again, `said` being read anew before. What to say of a rank that has died: killed, ended with
  /// another code than 0, or gone without a word after it said that it begins. Empty: none has.
  std::string dead_rank(const std::map<std::int64_t, RankFile>& said);
  std::vector<ProcessId> processes() const;

 private:
  struct Rank {
    ProcessId process;
    bool has_ended = false;
    int looks_gone = 0;
  };
  std::map<std::int64_t, Rank> ranks_;
};

}  // namespace gpuplan
