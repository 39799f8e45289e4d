// From all samples of a machine to the profile that is written: fits, and the few numbers of the cost model that follow
// from them.
#pragma once

#include <span>
#include <string>

#include "calibrate/probe.h"
#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"

namespace gpuplan {

/// `cluster` is the measured machine with its catalogue rates: shares are of those.
ProfileDraft make_profile(const std::string& id, std::span<const Sample> samples, const MeasuredOn& on,
                          const ClusterSpec& cluster);

}  // namespace gpuplan
