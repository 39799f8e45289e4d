#include "questions/schemas.h"

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

std::unique_ptr<valijson::Schema> read_schema(const std::string& name) {
  const std::filesystem::path docs = std::filesystem::path(GPUPLAN_TEST_DIR).parent_path() / "docs";
  const nlohmann::json text = read_json_file(
      name == "plan-file" ? docs / "plan.schema.json" : docs / "schemas" / fmt::format("{}.schema.json", name));
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

}  // namespace

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
