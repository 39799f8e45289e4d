// Machines that may be taken away: cheaper by the hour, slower by what restarts cost. Terms and their sources:
// data/spot.yaml.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace gpuplan {

/// Holds what a vendor's interruptible machines cost and how often they go.
struct SpotTerms {
  double share_of_on_demand = 1;
  double interruptions_per_hour{};  // of one machine
  Seconds restart;                  // until a new machine has loaded the checkpoint
  BytesPerSec checkpoint_rate;      // to storage that outlives the machine
  std::string source;
};

/// The terms of a vendor; nothing where the data know none.
std::optional<SpotTerms> spot_terms(const std::string& vendor);

/// Says how much longer training takes on machines of which any may be interrupted, as a factor of at least 1.
///
/// Checkpoints of `checkpoint` bytes are written every t = sqrt(2 c / r), where c is the time of a write and r the rate
/// of interruptions of all machines; each interruption loses half an interval and the restart:
/// 1 + c / t + r (t / 2 + restart). Source: Young 1974, "A first order approximation to the optimum checkpoint
/// interval"; Daly 2006.
double spot_slowdown(const SpotTerms& terms, Bytes checkpoint, std::int64_t num_machines);

}  // namespace gpuplan
