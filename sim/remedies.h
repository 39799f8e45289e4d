// What would shorten a simulated step: changes of the table in planner/changes.h, each simulated before it is named.
#pragma once

#include "sim/simulation.h"

namespace gpuplan {

/// Fills `remedy` of the largest items of `plan.simulation.critical`. Ratios are of tokens per second without jitter
/// and stragglers, on the links of the simulation (by closed form where it had very many events), so that both sides
/// are alike; a change that does not fit the GPU or gains less than 5 % is not named. Where none is, the first item
/// says why.
void add_remedies(SimulatedPlan& plan, const EstimateRequest& request, const FrameworkConvention& framework,
                  const Profile& profile);

}  // namespace gpuplan
