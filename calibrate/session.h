// A calibration as a whole: probes run in worker processes (a crash, a hang or a lost device costs one probe), every
// sample is in the journal before the next probe starts, and a killed run goes on where it was.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/journal.h"
#include "calibrate/machine_state.h"
#include "calibrate/plan.h"
#include "calibrate/probe.h"
#include "calibrate/sampler.h"

namespace gpuplan {

struct Progress {
  std::size_t num_done{}, num_all{};
  Seconds elapsed, left;
  const Sample* last = nullptr;
};

/// How a group of `num_ranks` worker processes is started; tests start fakes.
struct WorkerCommand {
  std::vector<std::string> arguments;  // program and arguments, mpirun included
};

struct SessionOptions {
  DeviceKind kind{};
  bool is_quick = false;
  Seconds probe_timeout{60};
  std::function<WorkerCommand(std::int64_t num_ranks)> worker;
  std::function<void(const Progress&)> on_progress;
  std::function<std::vector<Probe>(std::int64_t num_ranks)> pilots;  // calibrate/machine_state.h; unset: none
  Seconds pilot_period{0.4};  // between two readings of them: states hold for seconds
  /// At the end of the probes with `num_ranks`, where the machine was in several states: which of them was measured.
  std::function<void(std::int64_t num_ranks, const std::vector<MachineState>& states, std::size_t measured)> on_states;
};

/// How often a probe is measured in one state of the machine, each time after all others of as many ranks; once where
/// its runs take `longest` together or more.
struct Visits {
  std::size_t good = 1;
  Seconds longest;
};
constexpr Visits visits_of(ProbeFamily family) {
  if (family == ProbeFamily::Collective) return {3, {100e-3}};
  return {};
}

/// Runs what the journal does not hold yet. Samples of all probes, in the order of `probes`. Between them pilots say in
/// which state the machine is; a probe that was measured in another one than the profile's is measured again, up to
/// four times as often as visits_of() wants it, and times of computing are scaled to one speed (not with `is_quick`:
/// everything once, and no pilots). Probes with the same number of ranks should follow each other: one group of workers
/// runs at a time. A group that cannot be started at all fails its probes with the reason; these failures are not in
/// the journal, so that a later run tries again.
std::vector<Sample> run_session(const std::vector<Probe>& probes, Journal& journal, const SessionOptions& options);

/// The worker's side, on every rank: probes as JSON lines on `in`, samples as JSON lines on `out` (rank 0 alone reads
/// and writes), until the end of input. `kWorkerReady` is written whenever the next probe may come. Exit code for the
/// process: kWorkerLost when the device is of no more use. Throws EnvError when the device or its ranks cannot be had.
inline constexpr std::string_view kWorkerReady = "ready";
inline constexpr int kWorkerLost = 3;
int serve_probes(DeviceKind kind, std::int64_t num_ranks, bool is_quick, std::istream& in, std::ostream& out);

}  // namespace gpuplan
