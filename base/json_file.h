// JSON from files people write or download, parsed with the place of every mistake; base/fields reads what it holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/fields.h"
#include "base/input_limits.h"

namespace gpuplan {

enum class DuplicateKeys : std::uint8_t { LastWins, Refuse };

/// Parses `text`. Throws InputError with where = "file:line:column" when it is not JSON, or nested absurdly deep.
nlohmann::json parse_json(std::string_view text, const std::string& where,
                          DuplicateKeys duplicates = DuplicateKeys::LastWins);

/// Reads and parses a whole file.
nlohmann::json read_json_file(const std::filesystem::path& path, const InputLimit& limit = kFileLimit);

/// Parses a text that may be something else: nothing when it is, or is nested absurdly deep.
std::optional<nlohmann::json> json_in(std::string_view text);

/// Returns the text under `key` at the top of a JSON object; empty where the file is none, or has no such text.
std::string text_at_top(const std::filesystem::path& file, const char* key);

/// `value` as text that ends in a line end; bytes that are no UTF-8 (of paths, of arguments) are replaced.
template <class Json>
std::string json_text(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// `value` on one line, without a line end.
template <class Json>
std::string json_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpuplan
