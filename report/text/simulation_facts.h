// Sentences and figures about a simulation that terminal and page share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/simulation_answer.h"
#include "report/text/facts.h"

namespace gpuplan {

/// "step", "tokens/s", "MFU", … and what they are, empty ones left out.
std::vector<Fact> speed_facts(const SimulationAnswer& answer);

/// One part of the step, mean over GPUs; the parts add up to it.
struct StepShare {
  std::string name, meaning;
  double share{};  // of the step
  Seconds time;
};
std::vector<StepShare> step_shares(const Simulation& simulation);

/// Why the plan does not fit, and that it was simulated all the same; empty when it fits.
std::string fit_warning(const SimulatedPlan& plan);

/// "4 GPUs, 2 of them simulated; ...": how the step was simulated.
std::string method_text(const SimulationAnswer& answer);

/// Ends of one link, as the topology names them; "link 3" without one.
std::string link_name(const Simulation& simulation, std::uint32_t link);

/// What a plan is called beside others.
std::string_view plan_name(const SimulatedPlan& plan);

/// Tokens per second per GPU against the first of `plans`.
double scaling_efficiency(const SimulatedPlan& plan, const SimulatedPlan& first);

}  // namespace gpuplan
