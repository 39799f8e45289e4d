// How a machine works now: a dozen short probes that every calibration measures too, asked again
// (cluster/profile/machine_pace.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/probe.h"
#include "calibrate/session.h"
#include "cluster/profile/machine_pace.h"
#include "cluster/profile/profile.h"
#include "device/communicator.h"
#include "device/device.h"

namespace gpuplan {

/// A probe, and the kind of work whose pace it tells.
struct PaceProbe {
  double MachinePace::*kind;
  Probe probe;
};
/// With `num_ranks` ranks at once. None for GPUs: nobody has measured yet what their clocks do to a step.
std::vector<PaceProbe> pace_probes(DeviceKind kind, std::int64_t num_ranks);

/// Probes with what they gave then.
struct PaceQuestion {
  std::vector<PaceProbe> probes;
  std::vector<Sample> then;
  MachinePace otherwise = {};  // of kinds of work that no probe tells
};
/// By kind the geometric mean of now / then over the probes that gave a figure both times.
MachinePace pace_between(const PaceQuestion& question, const std::vector<Sample>& now);

/// What the profile's calibration measured of the probes; nullopt when it has no figure for most of them: it is older
/// than they are, or of another number of ranks.
std::optional<std::vector<Sample>> samples_of(const std::vector<PaceProbe>& probes, const Profile& profile);

/// The pace by medians of what `ask` measures, each probe a few times in turn. Where some kind of work takes much
/// longer than it did, it may be a burst of the host, which is over before a run is: they are asked again after a
/// `pause` each time, until none does or it has lasted. Throws EnvError when a probe fails.
MachinePace settled_pace(const PaceQuestion& question, const std::function<Sample(const Probe&)>& ask,
                         const std::function<void()>& pause);

/// The same, measured in worker processes; one to three seconds, twice that where the machine is slower than it was.
/// Throws EnvError also when the workers do not start: nobody waits long for a prediction.
MachinePace read_pace(const PaceQuestion& question, const WorkerCommand& command);

/// The pace on this rank's own device, after its work: all of `ranks` call it (null: one rank), as many of them as the
/// probes are of ask, bound to their share of the cores from then on, and the others sleep until they are done. A few
/// times in turn and no more, as a burst that has lasted until now was part of what a run met. Known to those that ask,
/// and rank 0 is one. Throws EnvError on them when a probe fails. Requires: no more ranks in the probes than in
/// `ranks`; where fewer, no collectives (on_fewer_ranks).
std::optional<MachinePace> read_pace_here(const PaceQuestion& question, Device& device, Communicator* ranks);

/// The question for some of more ranks. Those that outnumber their cores wait for each other in a way of their own,
/// also in a group of few that do not (twice as long in short messages), so how collectives work is taken from
/// `before`.
PaceQuestion on_fewer_ranks(PaceQuestion question, const MachinePace& before);

}  // namespace gpuplan
