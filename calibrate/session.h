// One calibration: its measurements in order, and what is shown and kept of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "calibrate/journal.h"
#include "calibrate/probes/workload.h"
#include "calibrate/worker_process.h"
#include "cluster/profile/probe.h"

namespace gpuplan {

// A calibration as a whole: probes run in worker processes (a crash, a hang or a lost device costs one probe), every
// sample is in the journal before the next probe starts, and a killed run goes on where it was.

struct Progress {
  std::size_t num_done{}, num_all{};
  Seconds elapsed, left;
  const Sample* last = nullptr;
};

struct SessionOptions {
  bool is_quick = false;
  Seconds probe_timeout{60};
  std::function<WorkerCommand(std::int64_t num_ranks)> worker;
  std::function<void(const Progress&)> on_progress;
};

/// Number of visits to a probe, each after all others of as many ranks. One visit where it takes `kLongVisit` or more,
/// and with `is_quick`.
inline constexpr std::size_t kNumVisits = 3;
inline constexpr Seconds kLongVisit{100e-3};

/// Runs what the journal does not hold yet. One sample for each probe, in the order of `probes`: the median over its
/// visits, with an interval that holds theirs. Probes with the same number of ranks should follow each other: one group
/// of workers runs at a time. A group that cannot be started at all fails its probes with the reason; these failures
/// are not in the journal, so that a later run tries again.
std::vector<Sample> run_session(const std::vector<Probe>& probes, Journal& journal, const SessionOptions& options);

// Runs one probe on the device of this rank, all ranks of the group in step, and checks its result before its time
// counts.

/// Never throws for what the device or a library does: the failure is in the sample. `is_lost` tells that the device is
/// of no more use to this process.
Sample run_probe(const Probe& probe, ProbeBench& bench, bool& is_lost);

}  // namespace gpuplan
