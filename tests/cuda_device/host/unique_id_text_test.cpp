#include <doctest/doctest.h>

#include <array>

#include "device/nccl/unique_id_text.h"

using namespace gpuplan::nccl;

TEST_CASE("the id of a group of ranks goes through text unchanged") {
  const std::array bytes{std::byte{0}, std::byte{0x9f}, std::byte{0xff}, std::byte{0x10}};
  CHECK(hex_text(bytes) == "009fff10");
  const auto again = bytes_of_hex("009fff10", 4);
  REQUIRE(again);
  CHECK(std::equal(bytes.begin(), bytes.end(), again->begin(), again->end()));
}

TEST_CASE("text that is no id of the right length is refused") {
  CHECK_FALSE(bytes_of_hex("009fff1", 4));
  CHECK_FALSE(bytes_of_hex("009fff1000", 4));
  CHECK_FALSE(bytes_of_hex("009fff1g", 4));
  CHECK_FALSE(bytes_of_hex("", 4));
}
