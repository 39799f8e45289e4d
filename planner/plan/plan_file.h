// plan.json: the contract between the commands. Written by `estimate --save`, read by estimate, simulate, run and
// export. Schema: docs/plan.schema.json.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "planner/estimate.h"
#include "planner/plan/carried.h"

namespace gpuplan {

/// The plan of one strategy of an answer. `carried`: settings of the file that was read; nullptr: none. `set_up`: time
/// before training for which the machine is paid too.
nlohmann::json make_plan(const EstimateRequest& request, const EstimateResult& result, const StrategyEstimate& chosen,
                         const CarriedSettings* carried = nullptr, Seconds set_up = {});

/// Reads a plan back into a request (strategy pinned). Unknown fields, wrong types and other schema versions are
/// refused with their place: "plan.json: recipe.lora.rnk: unknown field".
EstimateRequest parse_plan(const nlohmann::json& plan, const std::string& where);

/// Settings that a plan keeps; null: none. Requires: parse_plan took it.
std::shared_ptr<const CarriedSettings> carried_by(const nlohmann::json& plan);

/// Gives the time before training that a plan counts; 0: none. Requires: parse_plan took it.
Seconds set_up_of(const nlohmann::json& plan);

}  // namespace gpuplan
