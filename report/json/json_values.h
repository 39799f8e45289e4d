// JSON values of what may be unknown.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace gpuplan {

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}
inline nlohmann::ordered_json or_null(const std::optional<Seconds>& value) {
  return value ? nlohmann::ordered_json(value->value) : nlohmann::ordered_json();
}
inline nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace gpuplan
