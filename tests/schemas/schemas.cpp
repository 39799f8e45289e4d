#include "schemas/schemas.h"

#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "base/json_file.h"

namespace gpuplan::test {
namespace {

using valijson::adapters::NlohmannJsonAdapter;

nlohmann::json schema_file(const std::string& name) {
  const std::filesystem::path docs = std::filesystem::path(GPUPLAN_TEST_DIR).parent_path() / "docs";
  return read_json_file(name == "plan-file" ? docs / "plan.schema.json"
                                            : docs / "schemas" / fmt::format("{}.schema.json", name));
}

std::unique_ptr<valijson::Schema> read_schema(const std::string& name) {
  const nlohmann::json text = schema_file(name);
  auto schema = std::make_unique<valijson::Schema>();
  valijson::SchemaParser parser;
  parser.populateSchema(NlohmannJsonAdapter(text), *schema);
  return schema;
}

const valijson::Schema& schema_named(const std::string& name) {
  static std::map<std::string, std::unique_ptr<valijson::Schema>> known;
  std::unique_ptr<valijson::Schema>& schema = known[name];
  if (!schema) schema = read_schema(name);
  return *schema;
}

void list_properties(const nlohmann::json& file, const nlohmann::json& rule, const std::string& at,
                     std::set<std::string>& out) {
  if (rule.contains("$ref"))
    list_properties(file, file.at(nlohmann::json::json_pointer(rule["$ref"].get<std::string>().substr(1))), at, out);
  if (rule.contains("items")) list_properties(file, rule["items"], at + "[]", out);
  if (rule.contains("oneOf"))
    for (const nlohmann::json& choice : rule["oneOf"]) list_properties(file, choice, at, out);
  if (!rule.contains("properties")) return;
  for (const auto& [key, inner] : rule["properties"].items()) {
    const std::string name = at.empty() ? key : at + "." + key;
    out.insert(name);
    list_properties(file, inner, name, out);
  }
}

}  // namespace

std::set<std::string> schema_properties(const std::string& name) {
  std::set<std::string> out;
  const nlohmann::json file = schema_file(name);
  list_properties(file, file, "", out);
  return out;
}

std::string schema_problem(const std::string& name, const nlohmann::json& answer) {
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  valijson::ValidationResults results;
  if (validator.validate(schema_named(name), NlohmannJsonAdapter(answer), &results)) return "";
  std::string text;  // from the outside in: the last ones name the place
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    std::string place;
    for (const std::string& part : error.context) place += part;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", place, error.description);
  }
  return text;
}

}  // namespace gpuplan::test
