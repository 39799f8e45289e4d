#include "base/packed_fields.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

namespace gpuplan {
namespace {

using Kind = PackedHead::Kind;

}  // namespace

PackedValue::PackedValue(std::string_view bytes)
    : begin_(bytes.data()),
      end_(bytes.data() + bytes.size()),
      head_(packed_head(begin_, end_)) {}

std::string_view PackedValue::text() const {
  return head_.kind == Kind::Text ? std::string_view(head_.behind, head_.count()) : std::string_view();
}

std::int64_t PackedValue::integer() const {
  auto out = std::int64_t(head_.bits);
  if (const std::string_view given = text(); !given.empty())
    std::from_chars(given.data(), given.data() + given.size(), out);
  return out;
}

nlohmann::json PackedValue::json() const {
  return from_message_pack({begin_, std::size_t(behind_packed(begin_, end_) - begin_)});
}

std::vector<PackedValue> PackedValue::items() const {
  if (head_.kind != Kind::Array) return {*this};
  std::vector<PackedValue> out;
  out.reserve(head_.count());
  const char* at = head_.behind;
  for (std::size_t k = 0; k < head_.count(); ++k) {
    out.emplace_back(std::string_view(at, std::size_t(end_ - at)));
    at = behind_packed(at, end_);
  }
  return out;
}

std::vector<std::pair<std::string_view, PackedValue>> PackedValue::pairs() const {
  std::vector<std::pair<std::string_view, PackedValue>> out;
  if (head_.kind != Kind::Object) return out;
  out.reserve(head_.count());
  const char* at = head_.behind;
  for (std::size_t k = 0; k < head_.count(); ++k) {
    const PackedHead key = packed_head(at, end_);
    at = key.behind + key.count();
    out.emplace_back(std::string_view(key.behind, key.count()), std::string_view(at, std::size_t(end_ - at)));
    at = behind_packed(at, end_);
  }
  return out;
}

void read_packed(PackedValue from, nlohmann::json& value) { value = from.json(); }

const PackedValue* PackedFields::find(std::string_view key) const {
  for (const auto& [name, value] : pairs_)
    if (name == key) return value.kind() == Kind::Null ? nullptr : &value;
  return nullptr;
}

std::vector<std::string> PackedFields::keys() const {
  std::vector<std::string> out;
  out.reserve(pairs_.size());
  for (const auto& [name, value] : pairs_) out.emplace_back(name);
  return out;
}

std::string PackedFields::text(std::string_view key) const {
  const PackedValue* const found = find(key);
  return std::string(found ? found->text() : std::string_view());
}

std::int64_t PackedFields::integer(std::string_view key, IntRange) const {
  const PackedValue* const found = find(key);
  return found ? found->integer() : 0;
}

std::vector<std::string> PackedFields::texts(std::string_view key) const {
  std::vector<std::string> out;
  optional(key, out);
  return out;
}

PackedFields PackedFields::fields(std::string_view key) const { return optional_fields(key).value(); }

std::optional<PackedFields> PackedFields::optional_fields(std::string_view key) const {
  const PackedValue* const found = find(key);
  return found ? std::optional(PackedFields(*found, file_)) : std::nullopt;
}

std::vector<PackedFields> PackedFields::list(std::string_view key) const {
  std::vector<PackedFields> out;
  if (const PackedValue* const found = find(key))
    for (const PackedValue& item : found->items()) out.emplace_back(item, file_);
  return out;
}

}  // namespace gpuplan
