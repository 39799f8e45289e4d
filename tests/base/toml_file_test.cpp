#include "base/toml_file.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace gpuplan {
namespace {

nlohmann::json toml(const char* text) { return parse_toml(text, "a.toml")->root; }

std::string toml_error(const char* text) {
  try {
    parse_toml(text, "a.toml");
  } catch (const InputError& error) { return error.what(); }
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("TOML: tables, lists of tables, dotted keys and values of every kind") {
  const auto root = toml(
      "# comment\nsteps = 1_000\nlr = 3e-6 # behind\n[model]\nname = \"a\\u0041\\n\"\nraw = 'C:\\x'\n"
      "on = true\n[a.\"b c\".d]\nx.y = -2\n[[env]]\nid = 1\n[[env]]\nid = 2\n[env.sub]\nz = [1, 2, # one\n 3,\n]\n"
      "t = { k = \"v\", n = { m = 1 } }\nlong = \"\"\"\nfirst\nsecond\"\"\"\nday = 1979-05-27\nhex = 0xff\n");
  CHECK(root["steps"] == 1000);
  CHECK(root["lr"].get<double>() == doctest::Approx(3e-6));
  CHECK(root["model"]["name"] == "aA\n");
  CHECK(root["model"]["raw"] == "C:\\x");
  CHECK(root["model"]["on"] == true);
  CHECK(root["a"]["b c"]["d"]["x"]["y"] == -2);
  CHECK(root["env"].size() == 2);
  CHECK(root["env"][1]["sub"]["z"] == nlohmann::json::array({1, 2, 3}));
  CHECK(root["env"][1]["sub"]["t"]["n"]["m"] == 1);
  CHECK(root["env"][1]["sub"]["long"] == "first\nsecond");
  CHECK(root["env"][1]["sub"]["day"] == "1979-05-27");
  CHECK(root["env"][1]["sub"]["hex"] == 255);
}

TEST_CASE("TOML: a mistake is told with its line, and every key has its line") {
  CHECK(has(toml_error("a = 1\nb = \n"), "a.toml:2: Error while parsing key-value pair: expected value"));
  CHECK(has(toml_error("a = 1\na = 2\n"), "a.toml:2: Error while parsing key-value pair: cannot redefine"));
  CHECK(has(toml_error("[t]\n[t]\n"), "a.toml:2: Error while parsing table header: cannot redefine"));
  CHECK(has(toml_error("a = \"x\n"), "a.toml:1: Error while parsing string"));
  CHECK(has(toml_error("a = [1, 2\n"), "encountered end-of-file"));
  CHECK(has(toml_error("a = 1 2\n"), "a.toml:1: Error while parsing key-value pair"));
  CHECK(has(toml_error("a = word\n"), "a.toml:1: Error while parsing value"));
  CHECK(has(toml_error("a = 1\n[a]\nb = 1\n"), "a.toml:2: Error while parsing table header: cannot redefine"));
  CHECK(has(toml_error("a = 1\nb = inf\n"), "a.toml:2: b is no finite number"));
  const auto tree = parse_toml("\n[t]\n\nx = 1\n[[e]]\nid = [\n1,\n2]\n", "a.toml");
  CHECK(tree->places.at("t").line == 2);
  CHECK(tree->places.at("t.x").line == 4);
  CHECK(tree->places.at("e[0].id").line == 6);
  CHECK(tree->places.at("e[0].id[1]").line == 8);
}

TEST_CASE("TOML: values that stand deep inside each other end in one message") {
  const auto repeat = [](const std::string& what, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += what;
    return out;
  };
  CHECK(has(toml_error(("a = " + repeat("[", 100'000)).c_str()), "maximum nested value depth"));
  CHECK(has(toml_error((repeat("a.", 100'000) + "b = 1\n").c_str()), "has more than 200 dots"));
  CHECK(has(toml_error((repeat("a.", 100) + "b = 1\n").c_str()), "values too deep inside each other"));
  CHECK(has(toml_error((repeat("a.", 100) + "b = 1\n!").c_str()), "a.toml:2"));
  // 31 lists of inline tables, each under 190 keys
  CHECK(has(toml_error(("x = " + repeat("[\n{" + repeat("k.", 190) + "k = ", 31)).c_str()), "maximum nested"));
  CHECK(toml_error((repeat("a.", 60) + "b = 1\n").c_str()).empty());
}

TEST_CASE("TOML: bytes of any kind end in a value or a message") {
  for (const char* text :
       {"",     "\n",    "=",    "[",    "[[", "[a",  "a",    "a=",   "a='",          "a=\"\\",   "a=\"\\u12", "a={",
        "a={b", "a={b=", "a.=1", ".a=1", "\"", "a=[", "a=[1", "[a]]", "a=1\n[[a]]\n", "a=\"\"\"", "\xff=1"}) {
    CAPTURE(text);
    CHECK_NOTHROW(toml_error(text));
  }
}

}  // namespace gpuplan
