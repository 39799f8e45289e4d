#include "base/yaml_file.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/value_tree.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

YamlFile yaml(const std::string& text) { return YamlFile::parse(text, "box.yaml"); }

/// Everything `read` had to say about `text`.
template <class Read>
std::string problems(const std::string& text, Read read) {
  try {
    YamlFile file = yaml(text);
    read(file.top());
    file.finish();
  } catch (const InputError& error) { return error.what(); }
  return "";
}

}  // namespace

TEST_CASE("yaml: text that is not YAML names file, line and column") {
  CHECK_THROWS_WITH_AS(
      yaml("a: 1\nb: [1, 2\nc: 3\n"),
      "box.yaml:3:2: not valid YAML: end of sequence flow not found\n  mind the indentation and the quotes",
      InputError);
  CHECK_THROWS_AS(yaml("\ta: 1\n"), InputError);
  CHECK_THROWS_AS(yaml("a: *nobody\n"), InputError);
}

TEST_CASE("yaml: text that is not UTF-8 is refused at its line, so that it can be written as JSON") {
  CHECK_THROWS_WITH_AS(YamlFile::parse("a: 1\nb: list \x90price\n", "x.yaml"),
                       doctest::Contains("x.yaml:2: the byte 0x90 is not UTF-8 text"), InputError);
}

TEST_CASE("yaml: a number that no unit of ours makes sense of is refused") {
  YamlFile file = YamlFile::parse("bandwidth_gb_s: 1e300\n", "x.yaml");
  file.top().optional_rate("bandwidth_gb_s");
  CHECK_THROWS_WITH_AS(file.finish(), doctest::Contains("1e300 is too large, must be 1e+15 or less"), InputError);
}

TEST_CASE("yaml: an empty file and a file that is no mapping are refused") {
  CHECK_THROWS_WITH_AS(yaml(""), "box.yaml:1:1: the file is empty\n  expected keys and values", InputError);
  CHECK_THROWS_WITH_AS(yaml("# only a comment\n"), "box.yaml:1:1: the file is empty\n  expected keys and values",
                       InputError);
  CHECK_THROWS_WITH_AS(yaml("\n- 1\n- 2\n"), "box.yaml:2:1: expected keys and values, found a list", InputError);
  CHECK_THROWS_WITH_AS(yaml("A6000"), "box.yaml:1:1: expected keys and values, found 'A6000'", InputError);
}

TEST_CASE("yaml: values are read with their types") {
  YamlFile file =
      yaml("name: box\ncount: 4\nshare: 0.5\nfast: true\nnames: [a, b]\none: a\nrange: [39, 41]\nnothing: null\n");
  Fields& top = file.top();
  CHECK(top.text("name") == "box");
  CHECK(top.integer("count") == 4);
  CHECK(top.number("share") == 0.5);
  CHECK(top.optional_flag("fast") == true);
  CHECK(top.texts("names") == std::vector<std::string>{"a", "b"});
  CHECK(top.texts("one") == std::vector<std::string>{"a"});
  CHECK(top.numbers("range") == std::vector<double>{39, 41});
  CHECK(top.has("nothing"));
  CHECK(!top.is_given("nothing"));
  CHECK(!top.optional_text("nothing"));
  CHECK(!top.optional_number("absent"));
  CHECK_NOTHROW(file.finish());
}

TEST_CASE("yaml: the end of the key is the unit") {
  YamlFile file = yaml("a_mib: 1.5\na_gib: 2\nb_gb_s: 768\nb_tb_s: 1.6\nb_gbit_s: 400\nc_tflops: 312\nd_us: 3.4\n");
  Fields& top = file.top();
  CHECK(top.optional_bytes("a_mib") == Bytes{1572864});  // 1.5 x 1048576
  CHECK(top.optional_bytes("a_gib") == 2_GiB);
  CHECK(top.optional_rate("b_gb_s")->value == doctest::Approx(768e9));
  CHECK(top.optional_rate("b_tb_s")->value == doctest::Approx(1.6e12));
  CHECK(top.optional_rate("b_gbit_s")->value == doctest::Approx(50e9));  // 400 / 8
  CHECK(top.optional_flops("c_tflops")->value == doctest::Approx(312e12));
  CHECK(top.optional_time("d_us")->value == doctest::Approx(3.4e-6));
  CHECK_THROWS_AS(top.optional_bytes("memory"), BugError);  // a reader that forgot the unit is our mistake
}

TEST_CASE("yaml: a problem names file, line and key") {
  CHECK(problems("name: box\ncount: four\n", [](auto& top) { top.integer("count"); }) ==
        "box.yaml:2: count: must be a number, found 'four'");
  CHECK(problems("count: 4.5\n", [](auto& top) { top.integer("count"); }) ==
        "box.yaml:1: count: must be a whole number, found '4.5'");
  CHECK(problems("count: 0\n", [](auto& top) { top.integer("count", {.least = 1}); }) ==
        "box.yaml:1: count: 0 is too small, must be 1 or more");
  CHECK(problems("count: 9\n", [](auto& top) { top.integer("count", {.most = 8}); }) ==
        "box.yaml:1: count: 9 is too large, must be 8 or less");
  CHECK(problems("count: -1\n", [](auto& top) { top.number("count"); }) ==
        "box.yaml:1: count: -1 is too small, must be 0 or more");
  CHECK(problems("count: .inf\n", [](auto& top) { top.number("count"); }) ==
        "box.yaml:1: count: must be a number, found '.inf'");
  CHECK(problems("count: 80 GiB\n", [](auto& top) {
          top.optional_bytes("count_gib");
          top.number("count");
        }) == "box.yaml:1: count: must be a number, found '80 GiB'");
  CHECK(problems("a: 1\n", [](auto& top) {
          top.allow({"a"});
          top.text("name");
        }) == "box.yaml:1: name: is missing");
  CHECK(problems("name:\n", [](auto& top) { top.text("name"); }) == "box.yaml:1: name: is null, a value is needed");
  CHECK(problems("fast: maybe\n", [](auto& top) { top.optional_flag("fast"); }) ==
        "box.yaml:1: fast: must be true or false, found 'maybe'");
  CHECK(problems("name: [a]\n", [](auto& top) { top.text("name"); }) ==
        "box.yaml:1: name: must be a text, found a list");
}

TEST_CASE("yaml: nested keys are named in full, at their line") {
  const std::string text = "intra:\n  fabric: pcie\n  latency_us: slow\nnics:\n- {count: 1}\n- {count: x}\n";
  CHECK(problems(text, [](auto& top) { top.fields("intra").optional_time("latency_us"); }) ==
        "box.yaml:3: intra.latency_us: must be a number, found 'slow'");
  CHECK(problems(text, [](auto& top) {
          for (auto& nic : top.list("nics")) nic.integer("count");
        }) == "box.yaml:6: nics[1].count: must be a number, found 'x'");
  CHECK(problems("intra: pcie\n", [](auto& top) { top.fields("intra").text("fabric"); }) ==
        "box.yaml:1: intra: must be a mapping of keys to values, found 'pcie'");
  CHECK(problems("a: 1\n", [](auto& top) { top.fields("intra").text("fabric"); }) == "box.yaml:1: intra: is missing");
  CHECK(problems("nics: 1\n", [](auto& top) { top.list("nics"); }) == "box.yaml:1: nics: must be a list, found '1'");
  CHECK(problems("nics: [1]\n", [](auto& top) { top.list("nics"); }) ==
        "box.yaml:1: nics[0]: must be a mapping of keys to values, found '1'");
}

TEST_CASE("yaml: an unknown key gets the nearest known one") {
  const auto read = [](Fields& top) {
    top.optional_text("fabric");
    top.allow({"note"});
    top.refuse_unknown();
  };
  CHECK(problems("fabrik: pcie\n", read) == "box.yaml:1: fabrik: is not a known key; did you mean 'fabric'?");
  CHECK(problems("zzzzzz: 1\n", read) == "box.yaml:1: zzzzzz: is not a known key");
  CHECK(problems("note: 1\nfabric: pcie\n", read).empty());
}

TEST_CASE("yaml: a key that comes twice is refused") {
  CHECK(problems("a: 1\nb: 2\na: 3\n", [](auto&) {}) == "box.yaml:3: a: comes twice");
}

TEST_CASE("yaml: every problem of a file is reported together, by line") {
  const auto read = [](Fields& top) {
    top.integer("count");
    top.text("name");
    top.refuse_unknown();
  };
  CHECK(problems("nam: box\ncount: four\n", read) ==
        "box.yaml: 3 problems:\n"
        "  box.yaml:1: name: is missing\n"
        "  box.yaml:1: nam: is not a known key; did you mean 'name'?\n"
        "  box.yaml:2: count: must be a number, found 'four'");
}

TEST_CASE("yaml: an alias repeats what its anchor holds; what would grow without end is refused") {
  YamlFile file = yaml("base: &b {count: 2}\nother: *b\n");
  CHECK(file.top().fields("other").integer("count") == 2);
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 10; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k == 0 ? "*a" : ", *a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  CHECK_THROWS_WITH_AS(yaml(bomb), doctest::Contains("holds more than 1000000 values"), InputError);
  CHECK_THROWS_WITH_AS(yaml("a: &a [*a]\n"), doctest::Contains("an alias stands inside what it repeats"), InputError);
  CHECK_THROWS_AS(yaml(std::string(20'000, '[')), InputError);
}

TEST_CASE("yaml: a key that is no text is refused") {
  CHECK(problems("? [a, b]\n: 1\nc: 2\n", [](auto& top) { top.allow({"c"}); }) ==
        "box.yaml:1: ?: a key must be a plain text");
}

TEST_CASE("YAML 1.1: a key that comes twice is refused, or its last value counts and its place is noted") {
  const std::string text = "a: 1\nb: {c: 1, d: 2}\na: [2]\nb: {c: 3, c: 4}\n";
  CHECK_THROWS_WITH_AS(parse_yaml11(text, "f"), doctest::Contains("comes twice"), InputError);
  const auto tree = parse_yaml11(text, "f", DuplicateKeys::LastWins);
  CHECK(tree->root == nlohmann::json{{"a", {2}}, {"b", {{"c", 4}}}});
  REQUIRE(tree->repeated.size() == 3);
  CHECK(tree->repeated[0].key == "a");
  CHECK(tree->repeated[0].line == 3);
  CHECK(tree->repeated[2].key == "b.c");
  CHECK(tree->places.at("a").key_line == 3);
}

TEST_CASE("YAML 1.1: a scalar without quotes is what PyYAML makes of it") {
  const auto value = [](const std::string& text) { return parse_yaml11("key: " + text + "\n", "f")->root["key"]; };
  for (const char* no : {"no", "No", "NO", "off", "false", "False"}) CHECK(value(no) == false);
  for (const char* yes : {"yes", "YES", "on", "true", "TRUE"}) CHECK(value(yes) == true);
  for (const char* text :
       {"y", "n", "1e-4", "1e5", ".", "1.2.3", "e5", "0x", "09", "1_a", "nO", "\"no\"", "'1'", "\"1.5\""})
    CHECK_MESSAGE(value(text).is_string(), text);
  CHECK(value("~").is_null());
  CHECK(value("null").is_null());
  CHECK(value("").is_null());
  CHECK(value("\"\"") == "");
  CHECK(value("12") == 12);
  CHECK(value("-1_000") == -1000);
  CHECK(value("0x1F") == 31);
  CHECK(value("010") == 8);
  CHECK(value("0b101") == 5);
  CHECK(value("1.0e-4") == 1e-4);
  CHECK(value("1.5") == 1.5);
  CHECK(value("+.5") == 0.5);
  CHECK(value("99999999999999999999").is_string());  // a whole number that no field of ours holds
}
