// Which probes a calibration consists of: the catalogue's real shapes at several token counts, in three layouts and
// every number format the device has, and everything around them. The order is fixed: most telling first, so that a
// stopped run is worth most.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "calibrate/probe.h"

namespace gpuplan {

struct ProbeScope {
  bool is_quick = false;                     // about 30 s instead of a few minutes
  std::vector<ProbeFamily> only;             // empty: all
  std::vector<std::int64_t> rank_counts{1};  // 1, 2, 4, … to all cores or GPUs
};

/// `facts` decides formats and how large shapes may be (memory, and the time a probe may take).
std::vector<Probe> plan_probes(const DeviceFacts& facts, const ProbeScope& scope);

}  // namespace gpuplan
