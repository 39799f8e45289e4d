#include "base/message_pack.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace gpuplan {
namespace {

using nlohmann::json;

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  /// Source of the formats: github.com/msgpack/msgpack/blob/master/spec.md.
  json value() {
    const auto format = number<std::uint8_t>();
    if (format < 0x80) return json(std::uint64_t(format));
    if (format < 0x90) return object(format & 0x0fU);
    if (format < 0xa0) return array(format & 0x0fU);
    if (format < 0xc0) return json(text(format & 0x1fU));
    switch (format) {
      case 0xc0: return json(nullptr);
      case 0xc2: return json(false);
      case 0xc3: return json(true);
      case 0xca: return json(double(std::bit_cast<float>(number<std::uint32_t>())));
      case 0xcb: return json(std::bit_cast<double>(number<std::uint64_t>()));
      case 0xcc: return json(std::uint64_t(number<std::uint8_t>()));
      case 0xcd: return json(std::uint64_t(number<std::uint16_t>()));
      case 0xce: return json(std::uint64_t(number<std::uint32_t>()));
      case 0xcf: return json(number<std::uint64_t>());
      case 0xd0: return json(std::int64_t(std::bit_cast<std::int8_t>(number<std::uint8_t>())));
      case 0xd1: return json(std::int64_t(std::bit_cast<std::int16_t>(number<std::uint16_t>())));
      case 0xd2: return json(std::int64_t(std::bit_cast<std::int32_t>(number<std::uint32_t>())));
      case 0xd3: return json(std::bit_cast<std::int64_t>(number<std::uint64_t>()));
      case 0xd9: return json(text(number<std::uint8_t>()));
      case 0xda: return json(text(number<std::uint16_t>()));
      case 0xdb: return json(text(number<std::uint32_t>()));
      case 0xdc: return array(number<std::uint16_t>());
      case 0xdd: return array(number<std::uint32_t>());
      case 0xde: return object(number<std::uint16_t>());
      case 0xdf: return object(number<std::uint32_t>());
      default: break;
    }
    if (format < 0xe0) throw BugError("packed values of an unknown format");
    return json(std::int64_t(std::bit_cast<std::int8_t>(format)));
  }
  bool is_at_end() const { return at_ == end_; }

 private:
  const char* take(std::size_t count) {
    if (std::size_t(end_ - at_) < count) throw BugError("packed values end too early");
    return std::exchange(at_, at_ + count);
  }
  /// Reads an unsigned number of so many bytes, the highest first.
  template <class Unsigned>
  Unsigned number() {
    const char* const bytes = take(sizeof(Unsigned));
    std::uint64_t out = 0;
    for (std::size_t k = 0; k < sizeof(Unsigned); ++k) out = out << 8 | std::uint8_t(bytes[k]);
    return Unsigned(out);
  }
  std::string text(std::size_t count) {
    const char* const begin = take(count);
    return {begin, count};
  }
  std::string key() {
    const auto format = number<std::uint8_t>();
    if (format >= 0xa0 && format < 0xc0) return text(format & 0x1fU);
    if (format == 0xd9) return text(number<std::uint8_t>());
    if (format == 0xda) return text(number<std::uint16_t>());
    throw BugError("a packed key is no text");
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

json from_message_pack(std::string_view bytes) {
  Unpacker unpacker(bytes);
  json out = unpacker.value();
  if (!unpacker.is_at_end()) throw BugError("something stands behind packed values");
  return out;
}

}  // namespace gpuplan
