// The fields of an object of data/ in the bytes of the archive (base/data_archive.h), for files with many rows: nothing
// is built or noted that is not asked for. It has the calls of Fields (base/fields.h) that a template over both needs;
// what it reads was read by tests with every key, so that it reports nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/data_archive.h"
#include "base/fields.h"
#include "base/message_pack.h"

namespace gpuplan {

/// A value and what stands behind it. A type with a shape of its own has read_packed(PackedValue, T&).
class PackedValue {
 public:
  explicit PackedValue(std::string_view bytes);

  PackedHead::Kind kind() const { return head_.kind; }
  std::size_t size() const { return head_.count(); }
  std::string_view text() const;
  std::int64_t integer() const;  // YAML keeps it as a text
  nlohmann::json json() const;
  std::vector<PackedValue> items() const;  // one where it is no list
  std::vector<std::pair<std::string_view, PackedValue>> pairs() const;

 private:
  const char* begin_;
  const char* end_;
  PackedHead head_;
};

inline void read_packed(PackedValue from, std::string& value) { value = from.text(); }
inline void read_packed(PackedValue from, bool& value) { value = from.size() != 0; }
void read_packed(PackedValue from, nlohmann::json& value);
template <class T>
void read_packed(PackedValue from, std::vector<T>& values) {
  for (const PackedValue& item : from.items()) read_packed(item, values.emplace_back());
}
template <class T>
void read_packed(PackedValue from, std::optional<T>& value) {
  read_packed(from, value.emplace());
}

class PackedFields {
 public:
  PackedFields(PackedValue object, const std::string& file) : file_(file), pairs_(object.pairs()) {}

  const std::string& file() const { return file_; }
  std::vector<std::string> keys() const;

  std::string text(std::string_view key) const;
  std::int64_t integer(std::string_view key, IntRange = {}) const;
  std::vector<std::string> texts(std::string_view key) const;
  PackedFields fields(std::string_view key) const;
  std::optional<PackedFields> optional_fields(std::string_view key) const;
  std::vector<PackedFields> list(std::string_view key) const;

  template <class T>
  bool operator()(std::string_view key, T& value) const {
    return optional(key, value);
  }
  template <class T>
  bool optional(std::string_view key, T& value) const {
    const PackedValue* const found = find(key);
    if (found) read_packed(*found, value);
    return found != nullptr;
  }

  void refuse_unknown() const {}
  void finish() const {}

 private:
  const PackedValue* find(std::string_view key) const;  // nullptr where it is absent or null

  const std::string& file_;
  std::vector<std::pair<std::string_view, PackedValue>> pairs_;
};

/// Returns what `read` makes of the object at the top of a JSON file of data/, given as PackedFields or as Fields.
template <class Read>
auto read_shipped(const std::filesystem::path& path, Read read) {
  const std::string file = path.string();
  if (const auto packed = packed_bytes(path, DataFormat::Json)) {
    PackedFields fields(PackedValue(*packed), file);
    return read(fields);
  }
  Fields fields(shipped_json(path));
  auto out = read(fields);
  fields.finish();
  return out;
}

}  // namespace gpuplan
