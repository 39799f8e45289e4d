#include "validate/point_fields.h"

#include <fmt/format.h>

namespace gpuplan {

using nlohmann::json;

std::string text_of(Fields& fields, const char* key) { return fields.optional_text(key).value_or(""); }

std::optional<double> amount_of(Fields& fields, const char* key, double most) {
  const auto value = fields.optional_number(key, kAnyNumber);
  if (value && !(*value > 0 && *value < 1e18)) fields.report(key, fmt::format("{} is not an amount above 0", *value));
  if (value && *value > most) fields.report(key, fmt::format("{} is too large, must be {} or less", *value, most));
  return value;
}

bool flag_of(Fields& fields, const char* key) {
  const json* value = fields.find(key);
  return value && (value->is_boolean() ? value->get<bool>() : !value->is_null());
}

}  // namespace gpuplan
