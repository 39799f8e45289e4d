#include "validate/point_fields.h"

#include <fmt/format.h>

namespace gpuplan {

using nlohmann::json;

std::string text_of(JsonFields& fields, const char* key) { return fields.optional_string(key).value_or(""); }

std::optional<double> amount_of(JsonFields& fields, const char* key, double most) {
  const auto value = fields.optional_number(key);
  if (value && !(*value > 0 && *value < 1e18)) fields.report(key, fmt::format("{} is not an amount above 0", *value));
  if (value && *value > most) fields.report(key, fmt::format("{} is too large, must be {} or less", *value, most));
  return value;
}

bool flag_of(JsonFields& fields, const char* key) {
  const json* value = fields.find(key);
  return value && (value->is_boolean() ? value->get<bool>() : !value->is_null());
}

std::vector<std::string> texts_of(JsonFields& fields, const char* key) {
  const json* value = fields.find(key);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> out;
  if (!value->is_array()) fields.report(key, "expected a text or a list of texts");
  if (value->is_array())
    for (const json& one : *value) {
      if (one.is_string())
        out.push_back(one.get<std::string>());
      else
        fields.report(key, "expected a list of texts");
    }
  return out;
}

}  // namespace gpuplan
