// Runs one probe on the device of this rank, all ranks of the group in step, and checks its result before its time counts.
#pragma once

#include "calibrate/probe.h"
#include "calibrate/sampler.h"
#include "device/communicator.h"
#include "device/device.h"

namespace gpuplan {

/// Where probes run. `ranks` is null on a single rank. `peers`: the other devices of this process, for copies between them.
struct ProbeBench {
  Device& device;
  Communicator* ranks = nullptr;
  std::vector<Device*> peers;
  SamplingRule rule;
};

/// Never throws for what the device or a library does: the failure is in the sample. `is_lost` tells that the device is of no
/// more use to this process.
Sample run_probe(const Probe& probe, ProbeBench& bench, bool& is_lost);

}  // namespace gpuplan
