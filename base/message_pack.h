// Values from MessagePack, as nlohmann::json writes it: the parser of a text at every start would take longer than a
// short answer. Three times as fast as json::from_msgpack, which takes any stream byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace gpuplan {

/// The beginning of a packed value: what it is, a number or how many things follow, and the bytes behind that.
struct PackedHead {
  enum class Kind : std::uint8_t { Null, Flag, Signed, Unsigned, Number, Text, Array, Object };
  Kind kind{};
  std::uint64_t bits = 0;  // of a number; else the count of bytes, items or pairs
  const char* behind = nullptr;
  std::size_t count() const { return std::size_t(bits); }
};

/// Throws BugError where the bytes hold no such beginning, or a text does not end in them.
PackedHead packed_head(const char* begin, const char* end);
/// Returns the first byte behind the value.
const char* behind_packed(const char* begin, const char* end);

/// The value that to_msgpack() wrote, of the same type. Throws BugError for other bytes: only what the build has
/// packed is read.
nlohmann::json from_message_pack(std::string_view bytes);

}  // namespace gpuplan
