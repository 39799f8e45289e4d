// Packed values are the values that were packed, type by type.
#include "base/message_pack.h"

#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

using namespace gpuplan;
using nlohmann::json;

namespace {

std::string packed(const json& value) {
  std::string out;
  json::to_msgpack(value, out);
  return out;
}

}  // namespace

TEST_CASE("values of every type and length come out of MessagePack as they went in") {
  const json list = json::parse(R"([null, true, false, "", "gpu", [], {}, [1, [2]], {"a": {"b": [3]}, "b": -1}])");
  CHECK(from_message_pack(packed(list)) == list);
  for (int bits = 0; bits < 64; ++bits) {
    const std::uint64_t power = std::uint64_t(1) << bits;
    for (const std::uint64_t n : {power - 1, power, power + 1}) {
      const json value = from_message_pack(packed(n));
      CHECK(value == json(n));
      CHECK(value.is_number_unsigned());
    }
    if (bits == 63) continue;
    for (const std::int64_t n : {-std::int64_t(power), -std::int64_t(power) - 1})
      CHECK(from_message_pack(packed(n)) == json(n));
  }
  for (const double x : {0.5, 0.1, -2.5e300, 1e-320, 3.0}) {
    const json value = from_message_pack(packed(x));
    CHECK(value.get<double>() == x);
    CHECK(value.is_number_float());
  }
  for (const std::size_t length : {31u, 32u, 255u, 256u, 65'535u, 65'536u}) {
    const std::string text(length, 'x');
    CHECK(from_message_pack(packed(text)) == json(text));
    json array = json::array(), object = json::object();
    for (std::size_t k = 0; k < length; ++k) array.push_back(k % 3), object[std::to_string(k)] = k;
    CHECK(from_message_pack(packed(array)) == array);
    CHECK(from_message_pack(packed(object)) == object);
  }
}

TEST_CASE("bytes that are no packed value are told") {
  const std::string whole = packed({{"key", {1, 2, 70'000, "text"}}});
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK_THROWS_AS(from_message_pack(std::string_view(whole).substr(0, length)), BugError);
  CHECK_THROWS_AS(from_message_pack(whole + '\0'), BugError);
  CHECK_THROWS_AS(from_message_pack("\xc1"), BugError);
  CHECK_THROWS_AS(from_message_pack("\x81\x01\x01"), BugError);  // a key that is a number
}
