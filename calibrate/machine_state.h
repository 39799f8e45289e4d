// The states of a machine. A virtual machine's cores are now neighbours and now far from each other, for seconds to minutes at a time:
// a short message then takes a third of the time, a product that is bound by memory half as long again. Each state repeats within one
// or two percent; a mixture of them repeats within twenty. Pilots, short probes between the others, tell which one it is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibrate/probe.h"

namespace gpuplan {

/// What is measured again and again with `num_ranks` ranks: what its cores cost each other, and how fast they are. None for GPUs, whose
/// states nobody has measured yet. None of these is a probe of a plan.
std::vector<Probe> pilot_probes(DeviceKind kind, std::int64_t num_ranks);

/// The time of each pilot, s. Empty: one of them failed.
using PilotReading = std::vector<double>;

struct MachineState {
  PilotReading center;
  double share{};  // of the readings
};

/// Whether every pilot is within 12 % of the state's: readings of one state differ by 2 to 5 %, states by 30 % and more in one pilot at least.
bool is_in(const MachineState& state, const PilotReading& reading);

/// Largest share first. What is in no state of at least two readings is left out.
std::vector<MachineState> find_states(std::span<const PilotReading> readings);

/// Which of them a profile is of: among those that hold for a quarter of the time, else all, the one with the shortest first pilot. So two
/// calibrations take the same one although none holds for most of the time. Requires: not empty.
std::size_t state_to_measure(std::span<const MachineState> states);

/// "with 2 ranks this machine was in 2 states: …", for people. Requires: two states or more.
std::string describe_states(std::int64_t num_ranks, std::span<const MachineState> states, std::size_t measured);

}  // namespace gpuplan
