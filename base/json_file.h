// JSON from files people write or download: parsed with the place of every mistake, and read field by field with types
// and ranges. `JsonFields` collects all problems of one object, so that a user sees them together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace gpuplan {

enum class DuplicateKeys : std::uint8_t { LastWins, Refuse };

/// Parses `text`. Throws InputError with where = "file:line:column" when it is not JSON, or nested absurdly deep.
nlohmann::json parse_json(std::string_view text, const std::string& where,
                          DuplicateKeys duplicates = DuplicateKeys::LastWins);

/// `value` as text that ends in a line end; bytes that are no UTF-8 (of paths, of arguments) are replaced.
template <class Json>
std::string json_text(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Reads and parses a whole file.
nlohmann::json read_json_file(const std::filesystem::path& path);

/// Inclusive bounds of a whole number.
struct IntRange {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// The fields of one JSON object. A bad field is noted and a harmless value returned; `finish` then throws once for
/// all of them. An absent field and an explicit null are both "not given", except where `has` is asked.
class JsonFields {
 public:
  /// `prefix` is put before keys in messages: "text_config.". Keeps a reference to `object`.
  JsonFields(const nlohmann::json& object, std::string where, std::string prefix = {});
  JsonFields(nlohmann::json&&, std::string, std::string = {}) = delete;  // it would not outlive this line

  bool has(const char* key) const;              // present, even as null
  const nlohmann::json* find(const char* key);  // nullptr when not given

  std::int64_t require_int(const char* key, IntRange range = {});
  std::optional<std::int64_t> optional_int(const char* key, IntRange range = {});
  double require_number(const char* key);
  std::optional<double> optional_number(const char* key);
  std::optional<bool> optional_bool(const char* key);
  std::string require_string(const char* key);
  std::optional<std::string> optional_string(const char* key);

  /// The object under `key`, empty when not given; its keys appear as "key.name" in messages. Finish it like any other.
  JsonFields object(const char* key);

  /// Notes a problem with `key`.
  void report(std::string_view key, std::string problem);
  bool has_problems() const { return !problems_.empty(); }
  /// Notes every key that was never asked for.
  void refuse_unknown();
  /// Throws InputError listing every noted problem. One problem: where = "file: key".
  void finish(std::string hint = {}) const;

 private:
  struct Problem {
    std::string key, text;
  };
  const nlohmann::json* require(const char* key);
  std::optional<std::int64_t> to_int(const nlohmann::json& value, const char* key, IntRange range);
  void report_type(const char* key, const char* wanted, const nlohmann::json& value);

  const nlohmann::json& object_;
  std::string where_, prefix_;
  std::set<std::string> asked_;
  std::vector<Problem> problems_;
};

/// One field at a time; throws at once. `where` names the file.
std::int64_t require_int(const nlohmann::json& object, const char* key, const std::string& where, IntRange range = {});
std::int64_t int_or(const nlohmann::json& object, const char* key, std::int64_t otherwise, const std::string& where,
                    IntRange range = {});
double require_number(const nlohmann::json& object, const char* key, const std::string& where);
double number_or(const nlohmann::json& object, const char* key, double otherwise, const std::string& where);
std::string require_string(const nlohmann::json& object, const char* key, const std::string& where);
std::string string_or(const nlohmann::json& object, const char* key, std::string otherwise, const std::string& where);
bool bool_or(const nlohmann::json& object, const char* key, bool otherwise, const std::string& where);

}  // namespace gpuplan
