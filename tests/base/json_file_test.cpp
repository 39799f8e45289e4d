#include "base/json_file.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "scratch_folder.h"

using namespace gpuplan;
using nlohmann::json;

TEST_CASE("a syntax error is placed by file, line and column") {
  try {
    parse_json("{\n  \"a\": 1,\n  \"b\": oops\n}", "x.json");
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(error.where() == "x.json:3:8");
    CHECK(error.problem().starts_with("not valid JSON"));
  }
  CHECK_THROWS_WITH_AS(parse_json("{\"a\": [1, 2", "x.json"), doctest::Contains("x.json:1:12"), InputError);
  CHECK_THROWS_WITH_AS(parse_json("", "x.json"), doctest::Contains("x.json:1:1: the file is empty"), InputError);
  CHECK_THROWS_WITH_AS(parse_json(" \n\n", "x.json"), doctest::Contains("the file is empty"), InputError);
  CHECK_THROWS_AS(parse_json("{} {}", "x.json"), InputError);
  CHECK_THROWS_AS(parse_json("\"\xff\xfe\"", "x.json"), InputError);
}

TEST_CASE("deep nesting is refused where it gets absurd, closed or not") {
  const std::string deep(200'000, '[');
  CHECK_THROWS_AS(parse_json(deep, "x.json"), InputError);
  CHECK_THROWS_WITH_AS(parse_json("{\"a\":\n" + deep + std::string(200'000, ']') + "}", "x.json"),
                       doctest::Contains("x.json:2:256: is nested more than 256 levels deep"), InputError);
  CHECK(parse_json(std::string(256, '[') + std::string(256, ']'), "x.json").is_array());
  CHECK(parse_json("\"" + deep + "\"", "x.json") == deep);  // in quotes it is text
  CHECK_THROWS_AS(parse_json(R"({"a": "\\", "b": )" + deep, "x.json"),
                  InputError);  // the backslash is escaped, the quote is not
}

TEST_CASE("text of a value is valid JSON even when the value holds bytes of a path that are not UTF-8") {
  CHECK(json_text(nlohmann::json{{"id", "a\xff"}}) == "{\n  \"id\": \"a\uFFFD\"\n}\n");
}

TEST_CASE("a key that comes twice: the last wins, or it is refused") {
  const char* text = R"({"a": {"b": 1}, "c": [{"b": 1}, {"b": 2}], "a": 3})";
  CHECK(parse_json(text, "x")["a"] == 3);
  CHECK_THROWS_WITH_AS(parse_json(text, "x", DuplicateKeys::Refuse), doctest::Contains("the key 'a' comes twice"),
                       InputError);
  CHECK_NOTHROW(parse_json(R"({"a": {"b": 1}, "b": [{"b": 1}, {"b": 2}]})", "x", DuplicateKeys::Refuse));
}

TEST_CASE("a file is read and its errors carry its path") {
  const test::ScratchFolder scratch;
  CHECK(read_json_file(scratch.write("good.json", "{\"a\": 1}"))["a"] == 1);
  CHECK_THROWS_WITH_AS(read_json_file(scratch.write("bad.json", "{")), doctest::Contains("bad.json:1:2"), InputError);
  CHECK_THROWS_AS(read_json_file(scratch.path() / "none.json"), InputError);
}

TEST_CASE("parse_json: keys of a large object are compared in time that grows with their number") {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"layers." + std::to_string(i) + ".w\":{\"shape\":[1]},";
  CHECK(parse_json(text + R"("last":1})", "x", DuplicateKeys::Refuse).size() ==
        200'001);  // minutes where it is quadratic
  CHECK_THROWS_AS(parse_json(text + R"("layers.0.w":1})", "x", DuplicateKeys::Refuse), InputError);
}
