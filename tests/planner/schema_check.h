// A validator for the keywords that docs/plan.schema.json uses, independent of the reader it is compared with. A
// keyword it does not know fails the test, so the schema cannot promise what nobody checks.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace gpuplan {

class SchemaCheck {
 public:
  explicit SchemaCheck(nlohmann::json schema) : schema_(std::move(schema)) {}

  /// "at: what is wrong", one line each; empty when `value` is valid.
  std::vector<std::string> problems(const nlohmann::json& value) const;

  /// Every property the schema names, as "recipe.lora.rank"; list items as "cluster.gpus[].id".
  std::set<std::string> properties() const;

 private:
  using Problems = std::vector<std::string>;
  void check(const nlohmann::json& rule, const nlohmann::json& value, const std::string& at, Problems& out) const;
  void check_keyword(const std::string& keyword, const nlohmann::json& rule, const nlohmann::json& value,
                     const std::string& at, Problems& out) const;
  void check_object(const nlohmann::json& rule, const nlohmann::json& value, const std::string& at,
                    Problems& out) const;
  void list(const nlohmann::json& rule, const std::string& at, std::set<std::string>& out) const;
  const nlohmann::json& target(const nlohmann::json& ref) const;

  nlohmann::json schema_;
};

}  // namespace gpuplan
