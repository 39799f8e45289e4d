#include "base/json_file.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/data_archive.h"
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

/// The place of the first bracket that is nested deeper than that; npos where none is. What stands inside quotes does
/// not count.
std::size_t place_too_deep(std::string_view text) {
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
      return i;
  }
  return std::string_view::npos;
}

/// Notes the keys of each open object, and throws when one comes twice. A reader of events: a callback of json::parse
/// would look at every member of an object again at the end of each.
class DuplicateWatch final : public nlohmann::json_sax<json> {
 public:
  explicit DuplicateWatch(std::string where) : where_(std::move(where)) {}
  bool start_object(std::size_t) override { return open_.emplace_back(), true; }
  bool end_object() override { return open_.pop_back(), true; }
  bool key(string_t& key) override {
    if (!open_.back().insert(key).second) throw InputError(where_, fmt::format("the key '{}' comes twice", key));
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;  // json::parse says it
  }

 private:
  std::string where_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace

json parse_json(std::string_view text, const std::string& where, DuplicateKeys duplicates) {
  if (const std::size_t at = place_too_deep(text); at != std::string_view::npos)
    throw InputError(place(where, text, at + 1), fmt::format("is nested more than {} levels deep", kDeepest),
                     "expected a JSON document that people can read");
  try {
    if (DuplicateWatch watch(where); duplicates == DuplicateKeys::Refuse)
      static_cast<void>(json::sax_parse(text.begin(), text.end(), &watch));
    return json::parse(text.begin(), text.end());
  } catch (const json::parse_error& error) {
    const bool is_empty = trim(text).empty();
    throw InputError(place(where, text, error.byte),
                     is_empty ? "the file is empty" : "not valid JSON: " + detail_of(error),
                     "expected a JSON document");
  } catch (const json::exception& error) {  // a number beyond double
    throw InputError(where, fmt::format("is not JSON that can be read: {}", error.what()));
  }
}

std::optional<json> json_in(std::string_view text) {
  if (place_too_deep(text) != std::string_view::npos) return std::nullopt;
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? std::nullopt : std::optional(std::move(value));
}

std::string text_at_top(const std::filesystem::path& file, const char* key) {
  const InputFile in(file);
  if (in.size() > std::int64_t(kPlanLimit.bytes)) return {};
  const auto value = json_in(in.read(0, in.size()));
  if (!value || !value->is_object()) return {};
  const auto at = value->find(key);
  return at != value->end() && at->is_string() ? at->get<std::string>() : std::string();
}

json read_json_file(const std::filesystem::path& path, const InputLimit& limit) {
  if (auto packed = packed_json(path)) return *std::move(packed);
  return parse_json(read_file(path, limit), path.string());
}

}  // namespace gpuplan
