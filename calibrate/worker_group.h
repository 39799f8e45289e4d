// The worker processes of one number of ranks: probes go in, samples come out; a crash, a hang or a lost device costs
// one probe.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "calibrate/probe.h"
#include "calibrate/worker_process.h"

namespace gpuplan {

/// Started by the first make_ready(), and again when they end. A write to one that died is an error of the call only
/// where SIGPIPE is ignored: IgnoredBrokenPipes.
class WorkerGroup {
 public:
  WorkerGroup(std::function<WorkerCommand()> command, Seconds probe_timeout)
      : command_(std::move(command)),
        probe_timeout_(probe_timeout) {}

  /// Why no worker of this group can be had; empty: `ask` may be called.
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

/// While one is alive, a worker that died is a failed write here, not the end of this process.
class IgnoredBrokenPipes {
 public:
  IgnoredBrokenPipes();
  ~IgnoredBrokenPipes();
  IgnoredBrokenPipes(const IgnoredBrokenPipes&) = delete;
  IgnoredBrokenPipes& operator=(const IgnoredBrokenPipes&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace gpuplan
