// The rows of the table of changes (planner/changes.h) that set one figure of the machine, or of the profile that times
// it. Measurements of the part that changes are dropped, so that the catalogue's figures and the new value decide; all
// other measurements stay.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"

namespace gpuplan {

struct MachineChange {
  std::string_view name, unit;
  std::string_view wording;  // with a place for the value: "NVLink ({} GB/s)"
  /// Throws InputError where the figure means nothing on this machine.
  void (*apply)(ClusterSpec& cluster, Profile& profile, double value);
  /// Says why the figure means nothing on this machine, or ""; nullptr: it always means something.
  std::string (*why_not)(const ClusterSpec& cluster) = nullptr;
  bool is_of_links = false;  // it changes links of the cluster alone
};

std::span<const MachineChange> machine_changes();

/// Throws InputError for text that is not a number in the range of the row.
double machine_value(const MachineChange& change, std::string_view text);

}  // namespace gpuplan
