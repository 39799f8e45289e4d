// The sections of the report, each as HTML; empty where there is nothing to say.
#pragma once

#include <string>

#include "report/html/timeline_data.h"
#include "report/simulation_answer.h"

namespace gpuplan {

std::string tiles_html(const SimulationAnswer& answer);  // the figures that matter, large
std::string critical_html(const Simulation& simulation);
std::string shares_html(const Simulation& simulation);
std::string timeline_html(const SimulationAnswer& answer, const TimelineData& data);
std::string memory_html(const SimulationAnswer& answer, const TimelineData& data);
std::string topology_html(const SimulationAnswer& answer);
std::string comparison_html(const SimulationAnswer& answer);
std::string scaling_html(const SimulationAnswer& answer);

}  // namespace gpuplan
