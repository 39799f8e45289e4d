// The answer of `gpuplan plan` as JSON, in base units. Keys: docs/plan.md.
#pragma once

#include <nlohmann/json.hpp>

#include "report/answers.h"
#include "search/largest.h"

namespace gpuplan {

nlohmann::ordered_json plan_json(const PlanAnswer& answer);
nlohmann::ordered_json largest_json(const LargestTable& table, const SearchQuestion& question);

}  // namespace gpuplan
