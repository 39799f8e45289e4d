#include "ecosystem/python_value.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/names.h"

namespace gpuplan {

PythonValue python_literal(std::string text, bool is_text) {
  PythonValue value;
  value.kind = PythonValue::Kind::Literal;
  value.text = std::move(text);
  value.is_text = is_text;
  return value;
}

std::optional<double> number_of(const PythonValue& value) {
  if (value.kind != PythonValue::Kind::Literal || value.is_text) return {};
  return as_number(value.text);
}

std::optional<PythonValue> combined(const std::string& sign, const PythonValue& a, const PythonValue& b) {
  if (sign == "+" && a.is_text && b.is_text && a.text.size() + b.text.size() < 4096)
    return python_literal(a.text + b.text, true);
  if (sign == "/" && a.is_text && b.is_text && a.text.size() + b.text.size() < 4096) {  // Path("a") / "b"
    const bool is_alone = a.text.empty() || b.text.starts_with('/');
    return python_literal(is_alone ? b.text : a.text + (a.text.ends_with('/') ? "" : "/") + b.text, true);
  }
  const auto x = number_of(a), y = number_of(b);
  if (!x || !y) return {};
  const double result = sign == "+"    ? *x + *y
                        : sign == "-"  ? *x - *y
                        : sign == "*"  ? *x * *y
                        : sign == "/"  ? *x / *y
                        : sign == "//" ? std::floor(*x / *y)
                        : sign == "**" ? std::pow(*x, *y)
                                       : std::nan("");
  if (!std::isfinite(result) || std::abs(result) > 1e15) return {};
  const bool is_whole = sign != "/" && result == std::floor(result) &&
                        a.text.find_first_of(".eE") == std::string::npos &&
                        b.text.find_first_of(".eE") == std::string::npos;
  return python_literal(is_whole ? fmt::format("{}", std::int64_t(result)) : fmt::format("{}", result));
}

PythonValue unknown_python_value(std::string written) {
  PythonValue value;
  value.text = written.size() > 60 ? written.substr(0, 57) + "..." : std::move(written);
  return value;
}

PythonValue python_value_of(const nlohmann::json& value) {
  if (value.is_string()) return python_literal(value.get<std::string>(), true);
  PythonValue result;
  if (value.is_array()) {
    result.kind = PythonValue::Kind::List;
    for (const auto& item : value) result.items.push_back(python_value_of(item));
  } else if (value.is_object()) {
    result.kind = PythonValue::Kind::Dict;
    for (const auto& [key, item] : value.items()) result.keys.emplace_back(key, python_value_of(item));
  } else {
    return python_literal(value.dump());
  }
  return result;
}

nlohmann::json json_of(const PythonValue& value, std::vector<std::string>& unknown) {
  switch (value.kind) {
    case PythonValue::Kind::Literal:
      if (value.is_text) return value.text;
      return nlohmann::json::accept(value.text) ? nlohmann::json::parse(value.text) : nlohmann::json(value.text);
    case PythonValue::Kind::Name: return value.text.substr(value.text.rfind('.') + 1);
    case PythonValue::Kind::List: {
      nlohmann::json list = nlohmann::json::array();
      for (const PythonValue& item : value.items) list.push_back(json_of(item, unknown));
      return list;
    }
    case PythonValue::Kind::Dict: {
      nlohmann::json dict = nlohmann::json::object();
      for (const auto& [key, item] : value.keys) dict[key] = json_of(item, unknown);
      return dict;
    }
    case PythonValue::Kind::Unknown: unknown.push_back(value.text.empty() ? "an expression" : value.text);
  }
  return {};
}

std::optional<bool> truth_of(const PythonValue& value) {
  if (value.is_unset) return false;
  if (value.kind == PythonValue::Kind::List) return !value.items.empty();
  if (value.kind == PythonValue::Kind::Dict) return !value.keys.empty();
  if (value.kind != PythonValue::Kind::Literal) return {};
  if (value.is_text) return !value.text.empty();
  if (const auto number = number_of(value)) return *number != 0;
  return value.text == "true";
}

std::optional<bool> are_equal(const PythonValue& a, const PythonValue& b) {
  const auto is_none = [](const PythonValue& value) {
    return value.is_unset || (value.kind == PythonValue::Kind::Literal && !value.is_text && value.text == "null");
  };
  if (is_none(a) || is_none(b)) {
    const PythonValue& other = is_none(a) ? b : a;
    if (other.kind == PythonValue::Kind::Unknown || other.kind == PythonValue::Kind::Name) {
      if (!is_none(other)) return {};
    }
    return is_none(a) == is_none(b);
  }
  const bool are_library_names = a.text.starts_with("torch.") && b.text.starts_with("torch.");
  if (a.kind == PythonValue::Kind::Name && b.kind == a.kind && are_library_names) return a.text == b.text;
  if (a.kind != PythonValue::Kind::Literal || b.kind != a.kind || a.is_text != b.is_text) return {};
  return a.text == b.text;
}

std::optional<bool> contains(const PythonValue& container, const PythonValue& value) {
  if (value.kind != PythonValue::Kind::Literal || !value.is_text) return {};
  if (container.is_text) return container.text.find(value.text) != std::string::npos;
  if (container.kind == PythonValue::Kind::Dict) return find_item(container, value) != nullptr;
  if (container.kind != PythonValue::Kind::List) return {};
  bool is_known = true;
  for (const PythonValue& item : container.items) {
    if (item.is_text && item.text == value.text) return true;
    is_known = is_known && item.kind == PythonValue::Kind::Literal;
  }
  return is_known ? std::optional(false) : std::nullopt;
}

bool same_python_values(const PythonValue& a, const PythonValue& b) {
  const auto same_keys = [](const auto& x, const auto& y) {
    return x.first == y.first && same_python_values(x.second, y.second);
  };
  return a.kind == b.kind && a.text == b.text && a.is_text == b.is_text &&
         std::ranges::equal(a.items, b.items, same_python_values) && std::ranges::equal(a.keys, b.keys, same_keys);
}

const PythonValue* find_item(const PythonValue& value, const PythonValue& key) {
  if (value.kind == PythonValue::Kind::Dict && (key.is_text || number_of(key))) {
    const auto found = std::ranges::find_if(value.keys, [&](const auto& own) { return own.first == key.text; });
    return found == value.keys.end() ? nullptr : &found->second;
  }
  const auto place = value.kind == PythonValue::Kind::List ? number_of(key) : std::nullopt;
  if (!place || *place < 0 || *place >= double(value.items.size())) return nullptr;
  return &value.items[std::size_t(*place)];
}

PythonValue dict_of(const PythonCall& call) {
  PythonValue dict;
  dict.kind = PythonValue::Kind::Dict;
  if (!call.positional.empty() && call.positional.front().kind == PythonValue::Kind::Dict)
    dict.keys = call.positional.front().keys;
  dict.keys.insert(dict.keys.end(), call.keywords.begin(), call.keywords.end());
  return dict;
}

}  // namespace gpuplan
