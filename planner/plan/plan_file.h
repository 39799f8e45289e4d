// plan.json: the contract between the commands. Written by `estimate --save`, read by estimate, simulate, run and
// export. Schema: docs/plan.schema.json.
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "planner/estimate.h"

namespace gpuplan {

/// The plan of one strategy of an answer.
nlohmann::json make_plan(const EstimateRequest& request, const EstimateResult& result, const StrategyEstimate& chosen);

/// Reads a plan back into a request (strategy pinned). Unknown fields, wrong types and other schema versions are
/// refused with their place: "plan.json: recipe.lora.rnk: unknown field".
EstimateRequest parse_plan(const nlohmann::json& plan, const std::string& where);

}  // namespace gpuplan
