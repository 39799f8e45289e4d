// One plan that an answer shows, simulated, and what surrounds it: the knobs of the plan and the changes of a question.
#pragma once

#include <optional>
#include <string>

#include "search/frontier.h"
#include "sim/simulation.h"

namespace gpuplan {

/// One plan that is shown. Its times are simulated; `simulated.estimate` has those of the forward pass.
struct PlanRow {
  RankedPlan plan;  // as it was ranked
  EstimateRequest request;
  SimulatedPlan simulated;
  Offer offer;
  bool is_rented = false;
  Seconds step, epoch, total;  // simulated; epoch and total with the restarts of a spot machine, total with overhead
  double slowdown = 1;         // by those restarts
  Seconds overhead;            // part of `total`, and of what is paid for
  std::optional<double> cost_usd;
  std::string gpus;     // "2x H100 SXM"
  std::string reason;   // "the cheapest within the limits"
  std::string command;  // "gpuplan estimate --model … --strategy fsdp"

  Merit merit() const;
  /// Dollars of the overhead.
  double overhead_usd() const {
    return offer.usd_per_gpu_hour.value_or(0) * double(estimate().num_gpus_used) * overhead.value / 3600;
  }
  Quality quality() const { return plan.quality; }
  const StrategyEstimate& estimate() const { return simulated.estimate; }
  Bytes process() const { return estimate().tiers.process; }
};

/// Holds what one change of the recommended plan does to it; figures of the forward pass.
struct Knob {
  std::string change;        // "--checkpointing none"
  std::string not_possible;  // why; the figures below are then empty
  double time_ratio = 1;     // of training, after / before
  Bytes memory;              // of the process, after - before
  std::optional<double> cost_usd;
  Fit fit{};
};

/// A change of the question under which there is an answer.
struct WouldDo {
  std::string change;  // "--budget 140", "--quality ok"
  std::string plan;    // "8x H100 SXM at runpod, fsdp: 2 h 10 min, $138"
};

}  // namespace gpuplan
