#include "planner/schema_check.h"

#include <algorithm>
#include <regex>
#include <stdexcept>

namespace gpuplan {
namespace {

using nlohmann::json;

bool is_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  throw std::runtime_error("schema: unknown type " + type);
}

std::string join(const std::string& at, const std::string& key) { return at.empty() ? key : at + "." + key; }

}  // namespace

std::vector<std::string> SchemaCheck::problems(const json& value) const {
  Problems out;
  check(schema_, value, "", out);
  return out;
}

std::set<std::string> SchemaCheck::properties() const {
  std::set<std::string> out;
  list(schema_, "", out);
  return out;
}

void SchemaCheck::check(const json& rule, const json& value, const std::string& at, Problems& out) const {
  for (const auto& [keyword, argument] : rule.items()) check_keyword(keyword, rule, value, at, out);
}

void SchemaCheck::check_keyword(const std::string& keyword, const json& rule, const json& value, const std::string& at,
                                Problems& out) const {
  static const std::set<std::string> kNotes{"$schema",    "$defs",   "title", "description",
                                            "properties", "required"};  // the last two: with additionalProperties
  const json& argument = rule[keyword];
  const auto fail = [&](const std::string& what) {
    out.push_back(at + ": " + what + " " + argument.dump() + ", found " + value.dump());
  };
  if (keyword == "type") {
    if (!is_type(value, argument.get<std::string>())) fail("type");
  } else if (keyword == "const") {
    if (value != argument) fail("const");
  } else if (keyword == "enum") {
    if (std::find(argument.begin(), argument.end(), value) == argument.end()) fail("enum");
  } else if (keyword == "minimum") {
    if (value.is_number() && value.get<double>() < argument.get<double>()) fail("minimum");
  } else if (keyword == "maximum") {
    if (value.is_number() && value.get<double>() > argument.get<double>()) fail("maximum");
  } else if (keyword == "pattern") {
    if (value.is_string() && !std::regex_search(value.get<std::string>(), std::regex(argument.get<std::string>())))
      fail("pattern");
  } else if (keyword == "minItems") {
    if (value.is_array() && value.size() < argument.get<std::size_t>()) fail("minItems");
  } else if (keyword == "items") {
    if (value.is_array())
      for (std::size_t i = 0; i < value.size(); ++i) check(argument, value[i], at + "[" + std::to_string(i) + "]", out);
  } else if (keyword == "$ref")
    check(target(argument), value, at, out);
  else if (keyword == "oneOf") {
    std::size_t matches = 0;
    Problems inner;
    for (const json& choice : argument) {
      Problems of_choice;
      check(choice, value, at, of_choice);
      matches += of_choice.empty();
      inner.insert(inner.end(), of_choice.begin(), of_choice.end());
    }
    if (matches != 1) out.insert(out.end(), inner.begin(), inner.end());
  } else if (keyword == "additionalProperties")
    check_object(rule, value, at, out);
  else if (!kNotes.contains(keyword))
    throw std::runtime_error("schema: unknown keyword " + keyword);
}

void SchemaCheck::check_object(const json& rule, const json& value, const std::string& at, Problems& out) const {
  if (rule["additionalProperties"] != false)
    throw std::runtime_error("schema: additionalProperties must be false at " + at);
  if (!value.is_object()) return;
  const json& properties = rule.at("properties");
  for (const json& key : rule.at("required"))
    if (!value.contains(key.get<std::string>())) out.push_back(join(at, key.get<std::string>()) + ": is missing");
  for (const auto& [key, item] : value.items()) {
    if (properties.contains(key))
      check(properties[key], item, join(at, key), out);
    else
      out.push_back(join(at, key) + ": is not a property");
  }
}

void SchemaCheck::list(const json& rule, const std::string& at, std::set<std::string>& out) const {
  if (rule.contains("$ref")) list(target(rule["$ref"]), at, out);
  if (rule.contains("items")) list(rule["items"], at + "[]", out);
  if (rule.contains("oneOf"))
    for (const json& choice : rule["oneOf"]) list(choice, at, out);
  if (!rule.contains("properties")) return;
  for (const auto& [key, inner] : rule["properties"].items()) {
    out.insert(join(at, key));
    list(inner, join(at, key), out);
  }
}

const json& SchemaCheck::target(const json& ref) const {
  return schema_.at(json::json_pointer(ref.get<std::string>().substr(1)));
}

}  // namespace gpuplan
