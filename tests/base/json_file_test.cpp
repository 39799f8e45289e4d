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

TEST_CASE("fields of every type are read") {
  const json object{{"i", 3}, {"d", 2.5}, {"b", true}, {"s", "text"}, {"n", nullptr}};
  JsonFields fields(object, "x.json");
  CHECK(fields.require_int("i", {1, 3}) == 3);
  CHECK(fields.require_number("d") == 2.5);
  CHECK(fields.require_number("i") == 3);
  CHECK(fields.optional_bool("b") == true);
  CHECK(fields.require_string("s") == "text");
  CHECK_FALSE(fields.optional_int("n"));
  CHECK_FALSE(fields.optional_int("absent"));
  CHECK(fields.has("n"));
  CHECK_FALSE(fields.has("absent"));
  CHECK_NOTHROW(fields.finish());
}

TEST_CASE("one problem is placed at its key, several are listed") {
  const json object{{"i", "3"}, {"n", nullptr}};
  JsonFields one(object, "x.json", "part.");
  one.require_int("i");
  CHECK_THROWS_WITH_AS(one.finish(), "x.json: part.i: must be a whole number, found \"3\"", InputError);
  JsonFields several(object, "x.json");
  several.require_int("i"), several.require_int("n"), several.require_string("s");
  CHECK_THROWS_WITH_AS(several.finish("a hint"),
                       "x.json: 3 problems:\n  i: must be a whole number, found \"3\"\n  n: is null, a value is "
                       "needed\n  s: is missing\n  a hint",
                       InputError);
}

TEST_CASE("whole numbers are checked against their range, however large") {
  const json object = parse_json(
      R"({"small": -1, "large": 11, "huge": 18446744073709551615, "giant": 1e300, "float": 3.0, "bool": true})", "x");
  const auto error_of = [&](const char* key) {
    try {
      return require_int(object, key, "x", {0, 10}), std::string();
    } catch (const InputError& error) { return error.problem(); }
  };
  CHECK(error_of("small") == "-1 is too small, must be 0 or more");
  CHECK(error_of("large") == "11 is too large, must be 10 or less");
  CHECK(error_of("huge") == "18446744073709551615 is too large, must be 10 or less");
  CHECK(error_of("giant").starts_with("must be a whole number"));
  CHECK(error_of("float") == "must be a whole number, found 3.0");
  CHECK(error_of("bool") == "must be a whole number, found true");
  CHECK_THROWS_AS(require_int(object, "huge", "x"), InputError);
}

TEST_CASE("single fields have a fallback for what is not given, none for what is wrong") {
  const json object{{"i", 3}, {"s", "t"}, {"n", nullptr}};
  CHECK(int_or(object, "i", 7, "x") == 3);
  CHECK(int_or(object, "n", 7, "x") == 7);
  CHECK(string_or(object, "absent", "u", "x") == "u");
  CHECK(number_or(object, "absent", 0.5, "x") == 0.5);
  CHECK(bool_or(object, "absent", true, "x"));
  CHECK(require_string(object, "s", "x") == "t");
  CHECK(require_number(object, "i", "x") == 3);
  CHECK_THROWS_WITH_AS(bool_or(object, "i", true, "x"), "x: i: must be true or false, found 3", InputError);
  CHECK_THROWS_AS(number_or(object, "s", 1, "x"), InputError);
}

TEST_CASE("unknown fields are refused with the nearest known one") {
  const json object{{"precission", "bf16"}, {"lora", 1}, {"zzz", 1}};
  JsonFields fields(object, "plan.json", "recipe.");
  fields.optional_string("precision"), fields.optional_int("lora");
  fields.refuse_unknown();
  CHECK_THROWS_WITH_AS(fields.finish(),
                       doctest::Contains("recipe.precission: is not a known field; did you mean 'precision'?"),
                       InputError);
  CHECK_THROWS_WITH_AS(fields.finish(), doctest::Contains("recipe.zzz: is not a known field"), InputError);
}

TEST_CASE("an object inside an object names its place, and is empty when not given") {
  const json object{{"inner", {{"size", "x"}}}, {"wrong", 3}};
  JsonFields fields(object, "plan.json");
  JsonFields inner = fields.object("inner");
  inner.optional_int("size");
  CHECK_THROWS_WITH_AS(inner.finish(), doctest::Contains("plan.json: inner.size: must be a whole number"), InputError);
  CHECK_FALSE(fields.object("absent").optional_int("size").has_value());
  CHECK_FALSE(fields.object("wrong").optional_int("size").has_value());
  CHECK_THROWS_WITH_AS(fields.finish(), doctest::Contains("wrong: must be an object, found 3"), InputError);
}

TEST_CASE("what is no object has no fields") {
  const json list = json::array(), number = 3;
  CHECK_THROWS_WITH_AS(JsonFields(list, "x.json"), "x.json: expected an object {...}, found []", InputError);
  CHECK_THROWS_WITH_AS(JsonFields(number, "x.json", "recipe."), "x.json: recipe: expected an object {...}, found 3",
                       InputError);
}
