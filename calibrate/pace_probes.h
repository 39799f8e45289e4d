// How a machine works now: a dozen short probes that every calibration measures too, asked again (cluster/machine_pace.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/probe.h"
#include "calibrate/session.h"
#include "cluster/machine_pace.h"
#include "cluster/profile.h"

namespace gpuplan {

/// A probe, and the kind of work whose pace it tells.
struct PaceProbe {
  double MachinePace::*kind;
  Probe probe;
};
/// With `num_ranks` ranks at once. None for GPUs: nobody has measured yet what their clocks do to a step.
std::vector<PaceProbe> pace_probes(DeviceKind kind, std::int64_t num_ranks);

/// By kind the geometric mean of now / then over the probes that gave a figure both times; 1 where none did.
MachinePace pace_between(const std::vector<PaceProbe>& probes, const std::vector<Sample>& then, const std::vector<Sample>& now);

/// What the profile's calibration measured of the probes; nullopt when it has no figure for most of them: it is older than they are,
/// or of another number of ranks.
std::optional<std::vector<Sample>> samples_of(const std::vector<PaceProbe>& probes, const Profile& profile);

/// Measures them, each a few times in turn, in worker processes; half a second to one. Throws EnvError when the workers do not start or
/// a probe fails: nobody waits long for a prediction.
std::vector<Sample> read_pace(const std::vector<PaceProbe>& probes, const WorkerCommand& command);

}  // namespace gpuplan
