// The answer of `gpuplan estimate` for programs: names as in the plan file, base units in the names.
#pragma once

#include <nlohmann/json.hpp>

#include "report/estimate_answer.h"

namespace gpuplan {

nlohmann::ordered_json estimate_json(const EstimateAnswer& answer);

}  // namespace gpuplan
