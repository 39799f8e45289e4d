#include "base/json_file.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// nlohmann says "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while …: detail".
std::string detail_of(const json::parse_error& error) {
  std::string text = error.what();
  if (const auto at = text.find("column "); at != std::string::npos)
    if (const auto colon = text.find(": ", at); colon != std::string::npos) text.erase(0, colon + 2);
  return text;
}

std::string place(const std::string& where, std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(text.size(), byte == 0 ? 0 : byte - 1));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto line_start = before.rfind('\n');
  const auto column = before.size() - (line_start == std::string_view::npos ? 0 : line_start + 1) + 1;
  return fmt::format("{}:{}:{}", where, line, column);
}

constexpr int kDeepest = 256;  // levels; what walks a value recurses, and no file of ours has ten

/// Refuses brackets nested deeper than that. What stands inside quotes does not count.
void check_depth(std::string_view text, const std::string& where) {
  int depth = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted && c == '\\')
      ++i;
    else if (c == '"')
      is_quoted = !is_quoted;
    else if (!is_quoted && (c == ']' || c == '}'))
      --depth;
    else if (!is_quoted && (c == '[' || c == '{') && ++depth > kDeepest)
      throw InputError(place(where, text, i + 1), fmt::format("is nested more than {} levels deep", kDeepest),
                       "expected a JSON document that people can read");
  }
}

/// Notes the keys of each open object, and throws when one comes twice.
json::parser_callback_t duplicate_watch(const std::string& where) {
  return [where, open = std::vector<std::set<std::string>>{}](int, json::parse_event_t event, json& value) mutable {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      throw InputError(where, fmt::format("the key '{}' comes twice", value.get<std::string>()));
    return true;
  };
}

/// The value as it stands in the file, cut to fit a message.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

template <class T>
T finished(const JsonFields& fields, T value) {
  fields.finish();
  return value;
}

}  // namespace

json parse_json(std::string_view text, const std::string& where, DuplicateKeys duplicates) {
  check_depth(text, where);
  try {
    return json::parse(text.begin(), text.end(),
                       duplicates == DuplicateKeys::Refuse ? duplicate_watch(where) : nullptr);
  } catch (const json::parse_error& error) {
    const bool is_empty = trim(text).empty();
    throw InputError(place(where, text, error.byte),
                     is_empty ? "the file is empty" : "not valid JSON: " + detail_of(error),
                     "expected a JSON document");
  } catch (const json::exception& error) {  // a number beyond double
    throw InputError(where, fmt::format("is not JSON that can be read: {}", error.what()));
  }
}

json read_json_file(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

JsonFields::JsonFields(const json& object, std::string where, std::string prefix)
    : object_(object),
      where_(std::move(where)),
      prefix_(std::move(prefix)) {
  if (object_.is_object()) return;
  const std::string part = prefix_.empty() ? "" : ": " + prefix_.substr(0, prefix_.size() - 1);
  throw InputError(where_ + part, fmt::format("expected an object {{...}}, found {}", shown(object_)));
}

bool JsonFields::has(const char* key) const { return object_.contains(key); }

const json* JsonFields::find(const char* key) {
  asked_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const json* JsonFields::require(const char* key) {
  const json* value = find(key);
  if (!value) report(key, has(key) ? "is null, a value is needed" : "is missing");
  return value;
}

std::optional<std::int64_t> JsonFields::to_int(const json& value, const char* key, IntRange range) {
  if (!value.is_number_integer()) {
    report_type(key, "a whole number", value);
    return std::nullopt;
  }
  const bool is_huge = value.is_number_unsigned() &&
                       value.get<std::uint64_t>() > std::uint64_t(std::numeric_limits<std::int64_t>::max());
  const auto number = is_huge ? std::numeric_limits<std::int64_t>::max() : value.get<std::int64_t>();
  if (number < range.least)
    report(key, fmt::format("{} is too small, must be {} or more", shown(value), range.least));
  else if (is_huge || number > range.most)
    report(key, fmt::format("{} is too large, must be {} or less", shown(value), range.most));
  else
    return number;
  return std::nullopt;
}

std::int64_t JsonFields::require_int(const char* key, IntRange range) {
  const json* value = require(key);
  return value ? to_int(*value, key, range).value_or(0) : 0;
}

std::optional<std::int64_t> JsonFields::optional_int(const char* key, IntRange range) {
  const json* value = find(key);
  return value ? to_int(*value, key, range) : std::nullopt;
}

double JsonFields::require_number(const char* key) { return require(key) ? optional_number(key).value_or(0) : 0; }

std::optional<double> JsonFields::optional_number(const char* key) {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_number() && std::isfinite(value->get<double>())) return value->get<double>();
  report_type(key, "a number", *value);
  return std::nullopt;
}

std::optional<bool> JsonFields::optional_bool(const char* key) {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  report_type(key, "true or false", *value);
  return std::nullopt;
}

std::string JsonFields::require_string(const char* key) {
  return require(key) ? optional_string(key).value_or("") : "";
}

std::optional<std::string> JsonFields::optional_string(const char* key) {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  report_type(key, "a text in quotes", *value);
  return std::nullopt;
}

JsonFields JsonFields::object(const char* key) {
  static const json kEmpty = json::object();
  const json* found = find(key);
  if (found && !found->is_object()) report_type(key, "an object", *found);
  return JsonFields(found && found->is_object() ? *found : kEmpty, where_, prefix_ + key + ".");
}

void JsonFields::report(std::string_view key, std::string problem) {
  problems_.push_back({prefix_ + std::string(key), std::move(problem)});
}

void JsonFields::report_type(const char* key, const char* wanted, const json& value) {
  report(key, fmt::format("must be {}, found {}", wanted, shown(value)));
}

void JsonFields::refuse_unknown() {
  const std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const auto& [key, value] : object_.items()) {
    if (asked_.contains(key)) continue;
    const std::string suggestion = did_you_mean(key, known);
    report(key, suggestion.empty() ? "is not a known field" : "is not a known field; " + suggestion);
  }
}

void JsonFields::finish(std::string hint) const {
  if (problems_.empty()) return;
  if (problems_.size() == 1)
    throw InputError(fmt::format("{}: {}", where_, problems_[0].key), problems_[0].text, std::move(hint));
  std::string text = fmt::format("{} problems:", problems_.size());
  for (const Problem& problem : problems_) text += fmt::format("\n  {}: {}", problem.key, problem.text);
  throw InputError(where_, text, std::move(hint));
}

std::int64_t require_int(const json& object, const char* key, const std::string& where, IntRange range) {
  JsonFields fields(object, where);
  const auto value = fields.require_int(key, range);
  return finished(fields, value);
}

std::int64_t int_or(const json& object, const char* key, std::int64_t otherwise, const std::string& where,
                    IntRange range) {
  JsonFields fields(object, where);
  const auto value = fields.optional_int(key, range);
  return finished(fields, value.value_or(otherwise));
}

double require_number(const json& object, const char* key, const std::string& where) {
  JsonFields fields(object, where);
  const auto value = fields.require_number(key);
  return finished(fields, value);
}

double number_or(const json& object, const char* key, double otherwise, const std::string& where) {
  JsonFields fields(object, where);
  const auto value = fields.optional_number(key);
  return finished(fields, value.value_or(otherwise));
}

std::string require_string(const json& object, const char* key, const std::string& where) {
  JsonFields fields(object, where);
  const auto value = fields.require_string(key);
  return finished(fields, value);
}

std::string string_or(const json& object, const char* key, std::string otherwise, const std::string& where) {
  JsonFields fields(object, where);
  const auto value = fields.optional_string(key);
  return finished(fields, value.value_or(std::move(otherwise)));
}

bool bool_or(const json& object, const char* key, bool otherwise, const std::string& where) {
  JsonFields fields(object, where);
  const auto value = fields.optional_bool(key);
  return finished(fields, value.value_or(otherwise));
}

}  // namespace gpuplan
