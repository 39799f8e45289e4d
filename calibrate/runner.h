// Runs one probe on the device of this rank, all ranks of the group in step, and checks its result before its time
// counts.
#pragma once

#include "calibrate/probes/workload.h"
#include "cluster/profile/probe.h"

namespace gpuplan {

/// Never throws for what the device or a library does: the failure is in the sample. `is_lost` tells that the device is
/// of no more use to this process.
Sample run_probe(const Probe& probe, ProbeBench& bench, bool& is_lost);

}  // namespace gpuplan
