// The answers of `gpuplan estimate`, `simulate` and `topology` for programs: names as in the plan file, base units in
// the names, shares between 0 and 1.
#pragma once

#include <nlohmann/json.hpp>

#include "report/answers.h"
#include "report/text/topology_text.h"

namespace gpuplan {

nlohmann::ordered_json estimate_json(const EstimateAnswer& answer);

nlohmann::ordered_json simulation_json(const SimulationAnswer& answer);

nlohmann::ordered_json topology_json(const TopologyAnswer& answer);

}  // namespace gpuplan
