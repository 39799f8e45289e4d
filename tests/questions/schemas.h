// The schemas of docs/schemas: every --json of every command obeys the one of its name. Checked by valijson.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace gpuplan::test {

/// What `answer` has against docs/schemas/NAME.schema.json, with its place; "" when nothing. "plan-file" is
/// docs/plan.schema.json.
std::string schema_problem(const std::string& name, const nlohmann::json& answer);

}  // namespace gpuplan::test
