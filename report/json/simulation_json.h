// The answer of `gpuplan simulate` for programs: base units in the names, shares between 0 and 1.
#pragma once

#include <nlohmann/json.hpp>

#include "report/simulation_answer.h"

namespace gpuplan {

nlohmann::ordered_json simulation_json(const SimulationAnswer& answer);

}  // namespace gpuplan
