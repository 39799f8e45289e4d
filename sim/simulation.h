// One training step as discrete events: what every stream of every GPU does when, and why the step takes as long as it
// does. Reads the same step program as the memory replay and the executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/simulated_step.h"

namespace gpuplan {

/// "flow" or "analytic". Throws InputError for `--network`.
NetworkFidelity network_fidelity(const std::string& text);

/// Throws InputError for options that make no sense (a straggler that is no rank) and for a step of too many tasks.
Simulation simulate(const SimInput& input, const SimOptions& options = {});

/// A strategy simulated, with the figures that users ask for.
struct SimulatedPlan {
  std::string label;          // what sets it apart in a comparison; empty: the strategy's name
  StrategyEstimate estimate;  // memory and forward-pass time of the same plan
  Simulation simulation;
  double tokens_per_second{}, tokens_per_second_per_gpu{};
  double mfu{}, hfu{};  // model FLOPs (6P, or 4P for adapters, + attention) and executed FLOPs over the datasheet rate
  std::int64_t steps_per_epoch{};
  Seconds epoch, total;
  std::optional<double> cost_usd;
};

/// Builds, replays and simulates one strategy. Remedies: sim/remedies.h.
SimulatedPlan simulate_plan(const Job& job, const SimOptions& options);

}  // namespace gpuplan
