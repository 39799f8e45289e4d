#include "base/message_pack.h"

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

using nlohmann::json;

using Kind = PackedHead::Kind;

/// An unsigned number of so many bytes, the highest first.
std::uint64_t number_at(const char* bytes, std::size_t size) {
  std::uint64_t out = 0;
  for (std::size_t k = 0; k < size; ++k) out = out << 8 | std::uint8_t(bytes[k]);
  return out;
}

/// A format with a number behind it.
struct Format {
  Kind kind = Kind::Null;
  std::uint8_t size = 0;  // bytes of the number
};

/// Those from 0xc0 on; a size of 9 is no format of ours.
/// Source of the formats: github.com/msgpack/msgpack/blob/master/spec.md.
constexpr std::array<Format, 32> kFormats{{
    {Kind::Null, 0},     {Kind::Null, 9},   {Kind::Flag, 0},     {Kind::Flag, 0},     {Kind::Null, 9},
    {Kind::Null, 9},     {Kind::Null, 9},   {Kind::Null, 9},     {Kind::Null, 9},     {Kind::Null, 9},
    {Kind::Number, 4},   {Kind::Number, 8}, {Kind::Unsigned, 1}, {Kind::Unsigned, 2}, {Kind::Unsigned, 4},
    {Kind::Unsigned, 8}, {Kind::Signed, 1}, {Kind::Signed, 2},   {Kind::Signed, 4},   {Kind::Signed, 8},
    {Kind::Null, 9},     {Kind::Null, 9},   {Kind::Null, 9},     {Kind::Null, 9},     {Kind::Null, 9},
    {Kind::Text, 1},     {Kind::Text, 2},   {Kind::Text, 4},     {Kind::Array, 2},    {Kind::Array, 4},
    {Kind::Object, 2},   {Kind::Object, 4},
}};

/// A number of the format `kind` as 64 bits: its sign goes on, and a float is a double.
std::uint64_t widened(Kind kind, std::size_t size, std::uint64_t bits) {
  if (kind == Kind::Number && size == 4)
    return std::bit_cast<std::uint64_t>(double(std::bit_cast<float>(narrow<std::uint32_t>(bits))));
  if (kind != Kind::Signed || size == sizeof bits) return bits;
  const std::uint64_t sign = std::uint64_t(1) << (8 * size - 1);
  return (bits ^ sign) - sign;
}

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  json value() {
    const PackedHead head = next();
    switch (head.kind) {
      case Kind::Null: return json(nullptr);
      case Kind::Flag: return json(head.bits != 0);
      case Kind::Signed: return json(std::int64_t(head.bits));
      case Kind::Unsigned: return json(head.bits);
      case Kind::Number: return json(std::bit_cast<double>(head.bits));
      case Kind::Text: return json(text(head.count()));
      case Kind::Array: return array(head.count());
      case Kind::Object: return object(head.count());
    }
    throw BugError("packed values of an unknown kind");
  }
  bool is_at_end() const { return at_ == end_; }

 private:
  PackedHead next() {
    const PackedHead head = packed_head(at_, end_);
    at_ = head.behind;
    return head;
  }
  std::string text(std::size_t count) { return {std::exchange(at_, at_ + count), count}; }
  std::string key() {
    const PackedHead head = next();
    if (head.kind != Kind::Text) throw BugError("a packed key is no text");
    return text(head.count());
  }
  json array(std::size_t count) {
    json::array_t out;
    out.reserve(count);
    for (std::size_t k = 0; k < count; ++k) out.push_back(value());
    return json(std::move(out));
  }
  /// Keys come in the order of the map.
  json object(std::size_t count) {
    json::object_t out;
    for (std::size_t k = 0; k < count; ++k) {
      std::string name = key();
      out.emplace_hint(out.end(), std::move(name), value());
    }
    return json(std::move(out));
  }

  const char* at_;
  const char* end_;
};

}  // namespace

PackedHead packed_head(const char* begin, const char* end) {
  if (begin == end) throw BugError("packed values end too early");
  const char* const bytes = begin++;
  const auto first = std::uint8_t(bytes[0]);
  if (first < 0x80) return {Kind::Unsigned, first, begin};
  if (first < 0x90) return {Kind::Object, first & 0x0fU, begin};
  if (first < 0xa0) return {Kind::Array, first & 0x0fU, begin};
  if (first >= 0xe0) return {Kind::Signed, widened(Kind::Signed, 1, first), begin};
  const Format format = first < 0xc0 ? Format{Kind::Text, 0} : kFormats[first - 0xc0U];
  if (format.size > sizeof(std::uint64_t)) throw BugError("packed values of an unknown format");
  if (end - begin < format.size) throw BugError("packed values end too early");
  std::uint64_t bits = widened(format.kind, format.size, number_at(begin, format.size));
  if (first < 0xc0) bits = first & 0x1fU;
  if (format.kind == Kind::Flag) bits = first & 1U;
  begin += format.size;
  if (format.kind == Kind::Text && std::uint64_t(end - begin) < bits) throw BugError("packed values end too early");
  return {format.kind, bits, begin};
}

const char* behind_packed(const char* begin, const char* end) {
  const char* bytes = begin;
  for (std::uint64_t open = 1; open > 0; --open) {
    const auto first = bytes == end ? std::uint8_t{} : std::uint8_t(bytes[0]);
    const bool is_short_text = (first & 0xe0U) == 0xa0U;  // most values, which need no closer look
    if (is_short_text && end - bytes > (first & 0x1f)) {
      bytes += 1 + (first & 0x1f);
      continue;
    }
    const PackedHead head = packed_head(bytes, end);
    bytes = head.behind + (head.kind == Kind::Text ? head.count() : 0);
    if (head.kind == Kind::Array) open += head.bits;
    if (head.kind == Kind::Object) open += 2 * head.bits;
  }
  return bytes;
}

json from_message_pack(std::string_view bytes) {
  Unpacker unpacker(bytes);
  json out = unpacker.value();
  if (!unpacker.is_at_end()) throw BugError("something stands behind packed values");
  return out;
}

}  // namespace gpuplan
