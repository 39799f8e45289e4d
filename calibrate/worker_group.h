// The worker processes of one number of ranks: probes go in, samples come out; a crash, a hang or a lost device costs
// one probe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "calibrate/worker.h"
#include "calibrate/worker_process.h"
#include "cluster/profile/probe.h"

namespace gpuplan {

/// The command for `num_ranks` workers of `program`: CPU ranks under mpirun, bound to nothing; GPUs share one process.
/// Throws EnvError when mpirun is needed and not found.
WorkerCommand worker_command(const std::string& program, DeviceKind kind, std::int64_t num_ranks, bool is_quick);

/// Asks a worker for the facts about its device. Throws EnvError in the worker's own words when it has none, or takes
/// longer than `patience`.
WorkerFacts ask_worker(const std::string& program, DeviceKind kind, Seconds patience = {60});

/// Started by the first make_ready(), and again when they end. A write to one that died is an error of the call only
/// where SIGPIPE is ignored.
class WorkerGroup {
 public:
  WorkerGroup(std::function<WorkerCommand()> command, Seconds probe_timeout)
      : command_(std::move(command)),
        probe_timeout_(probe_timeout) {}

  /// Says why no worker of this group can be had; empty: `ask` may be called.
  const std::string& unusable() const { return unusable_; }
  /// Waits for a worker that is ready for a probe. Two in a row that end or stall before their first are enough.
  bool make_ready();
  /// Requires: ready.
  Sample ask(const Probe& probe);

 private:
  bool start();
  std::string ended(Seconds patience);
  WorkerAnswer::Kind wait_for(std::string_view word, Sample* wanted);

  std::function<WorkerCommand()> command_;
  Seconds probe_timeout_;
  std::unique_ptr<WorkerProcess> worker_;
  std::string unusable_, start_failure_;
};

}  // namespace gpuplan
