// The critical path in words: what the step waits for, between whom and over what, and which change would shorten it.
#pragma once

#include "sim/critical_path.h"
#include "sim/simulation.h"

namespace gpuplan {

/// One item per kind of work on the path, longest first; those below 0.5 % of the step are one item at the end.
std::vector<CriticalItem> describe_critical_path(const Simulation& simulation, const SimInput& input);

/// Where the messages of `axis` meet their narrowest place: "between GPU 0 and GPU 2 through host memory".
std::string describe_bottleneck(const SimInput& input, const Topology* topology, Axis axis);

/// Fills `remedy` of the largest items of `plan.simulation.critical`. Ratios are of tokens per second on analytic
/// links, so that both sides are alike; a change that does not fit the GPU or gains less than 5 % is not named.
void add_remedies(SimulatedPlan& plan, const EstimateRequest& request, const FrameworkConvention& framework,
                  const Profile& profile);

}  // namespace gpuplan
