// Runs one probe on the device of this rank, all ranks of the group in step, and checks its result before its time
// counts.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "calibrate/probe.h"
#include "calibrate/sampler.h"
#include "device/communicator.h"
#include "device/device.h"

namespace gpuplan {

class OperandPools;

/// Where probes run. `ranks` is null on a single rank. `peers`: all devices of this process by index, this one
/// included, for copies between them. What probes share is made by the first that needs it.
struct ProbeBench {
  Device& device;
  Communicator* ranks = nullptr;
  std::vector<Device*> peers;
  SamplingRule rule;
  std::shared_ptr<OperandPools> pools;
  std::map<RankScope, std::shared_ptr<Communicator>> groups;  // this rank's group of each scope
};

/// Never throws for what the device or a library does: the failure is in the sample. `is_lost` tells that the device is
/// of no more use to this process.
Sample run_probe(const Probe& probe, ProbeBench& bench, bool& is_lost);

}  // namespace gpuplan
