// The answer of `gpuplan simulate` for people.
#pragma once

#include <span>
#include <string>

#include "report/answers.h"
#include "report/text/gantt.h"
#include "report/text/screen.h"

namespace gpuplan {

/// Everything: what was asked, how fast, where the step goes, what it waits for, the chart, neighbours, assumptions.
std::string simulation_text(const SimulationAnswer& answer, const GanttView& view, const Screen& screen);

/// Its parts. A part without content is empty text.
std::string speed_text(const SimulationAnswer& answer, const Screen& screen);      // step, tokens/s, MFU, time, cost
std::string step_shares_text(const Simulation& simulation, const Screen& screen);  // where the step goes
std::string streams_text(const Simulation& simulation, const Screen& screen);      // per GPU and stream
std::string critical_text(const Simulation& simulation, const Screen& screen);     // what the step waits for
std::string links_text(const Simulation& simulation, const Screen& screen);        // busiest links
std::string comparison_text(std::span<const SimulatedPlan> plans, const Screen& screen);  // one row per strategy
std::string scaling_text(std::span<const SimulatedPlan> plans, const Screen& screen);     // one row per number of GPUs

}  // namespace gpuplan
