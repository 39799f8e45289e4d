// The states of a machine. A virtual machine's cores are now neighbours and now far from each other, for seconds to
// minutes at a time: a short message then takes a third of the time, a product that is bound by memory half as long
// again. And they are now quicker and now slower, by what else its host does. Pilots, two short probes between the
// others, tell both: in one state, and scaled to one speed, a product repeats within one or two percent; over all of
// them within twenty (docs/calibration.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibrate/probe.h"

namespace gpuplan {

/// What is measured again and again with `num_ranks` ranks: what their cores cost each other (a message of 1,000 bytes,
/// or with one rank a product that is mostly meeting of its threads), and how fast they are (a product of 376 x 376 x
/// 376). None for GPUs, whose states nobody has measured yet. Neither is a probe of a plan.
std::vector<Probe> pilot_probes(DeviceKind kind, std::int64_t num_ranks);

/// s. Both 0: a pilot failed.
struct PilotReading {
  double meeting{}, work{};
  bool is_whole() const { return meeting > 0 && work > 0; }
};

struct MachineState {
  PilotReading center;  // medians
  double share{};       // of the readings
};

/// Whether cores meet as they do in the state, within 15 %: readings of one state differ by 2 to 10 %, states by 30 %
/// and more.
bool is_in(const MachineState& state, const PilotReading& reading);

/// Largest share first. What is in no state of at least two readings is left out.
std::vector<MachineState> find_states(std::span<const PilotReading> readings);

/// Which of them a profile is of: among those that hold for a quarter of the time the one whose cores meet fastest, so
/// that two calibrations take the same one although none holds for most of the time; without any such, the most
/// frequent. Requires: not empty.
std::size_t state_to_measure(std::span<const MachineState> states);

/// Of what was measured between two readings: whether both were in the state, and alike in speed within 8 %.
bool is_between(const MachineState& state, const PilotReading& before, const PilotReading& after);
/// The factor by which a time of computing between them becomes one at the state's speed.
double to_speed_of(const MachineState& state, const PilotReading& before, const PilotReading& after);

/// "with 2 ranks this machine changed between states …", for people: those that held for a twentieth of the time, and
/// the one that was measured. Empty where there are not two of them.
std::string describe_states(std::int64_t num_ranks, std::span<const MachineState> states, std::size_t measured);

}  // namespace gpuplan
