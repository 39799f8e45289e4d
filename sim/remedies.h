// What would shorten a simulated step: changes of the table in planner/changes.h, each simulated before it is named.
#pragma once

#include "sim/simulation.h"

namespace gpuplan {

/// Fills `remedy` of the largest items of `plan.simulation.critical`. Ratios are of tokens per second on analytic
/// links, so that both sides are alike; a change that does not fit the GPU or gains less than 5 % is not named.
void add_remedies(SimulatedPlan& plan, const EstimateRequest& request, const FrameworkConvention& framework,
                  const Profile& profile);

}  // namespace gpuplan
