// All ranks of a group in step: they start together, the slowest one's time counts, and what fails on one fails on all.
#pragma once

#include <functional>
#include <string>

#include "calibrate/runner.h"

namespace gpuplan {

/// Calls that are enqueued before the host waits: a full queue (CUDA: 1024) blocks it, for ever where the stream waits
/// for the host.
inline constexpr std::int64_t kMostQueued = 256;

/// Why a probe has no figure; the same on every rank.
struct ProbeFailure {
  std::string reason;
};

/// The result of a probe's work is not what it should be.
struct WrongResult {
  std::string what;
};

/// Runs `step` on every rank and throws ProbeFailure on all when it failed on one. `ranks` may be null.
void run_in_step(Communicator* ranks, const std::function<void()>& step);

/// The largest of all ranks' values; `value` itself on a single rank.
double largest_of(Communicator* ranks, double value);

struct Workload;

/// Times the workload's calls on a stream by device events, again and again as the bench's rule says. Throws
/// ProbeFailure.
SampledTime time_in_step(ProbeBench& bench, Stream& stream, const Workload& workload);

/// The same, for an own way to time `num_calls` on this rank.
SampledTime time_in_step(ProbeBench& bench, const std::function<Seconds(std::int64_t num_calls)>& time_calls);

/// What a caught exception says, as the reason of a failure.
std::string reason_of_current_exception();

}  // namespace gpuplan
