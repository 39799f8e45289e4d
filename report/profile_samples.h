// The samples that a measured profile carries, as the probes wrote them.
#pragma once

#include <vector>

#include "calibrate/probe.h"
#include "cluster/profile/profile.h"

namespace gpuplan {

/// In the order of the file; none of a shipped profile. Throws InputError naming the file and the line of a bad sample.
std::vector<Sample> samples_of(const Profile& profile);

/// The samples as a table for other programs: comma-separated, one line each under a line of names, base units.
std::string samples_csv(const std::vector<Sample>& samples);

}  // namespace gpuplan
