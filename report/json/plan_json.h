// The answer of `gpuplan plan` as JSON, in base units. Schema: docs/plan_answer.schema.json.
#pragma once

#include <nlohmann/json.hpp>

#include "report/answers.h"

namespace gpuplan {

nlohmann::ordered_json plan_json(const PlanAnswer& answer);

}  // namespace gpuplan
