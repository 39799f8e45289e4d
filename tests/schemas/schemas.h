// The schemas of docs: every --json of every command and every plan file obeys the one of its name. Checked by
// valijson, a library that knows nothing of our readers.
#pragma once

#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace gpuplan::test {

/// What `answer` has against docs/schemas/<name>.schema.json, with its place; "" when nothing. "plan-file" is
/// docs/plan.schema.json.
std::string schema_problem(const std::string& name, const nlohmann::json& answer);

/// Every property that a schema names, as "recipe.lora.rank"; of list items as "cluster.gpus[].id".
std::set<std::string> schema_properties(const std::string& name);

}  // namespace gpuplan::test
