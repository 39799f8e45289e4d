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
  CHECK(has(toml_error("a = 1\nb = \n"), "a.toml:2"));
  CHECK(has(toml_error("a = 1\na = 2\n"), "a comes twice"));
  CHECK(has(toml_error("[t]\n[t]\n"), "[t] comes twice"));
  CHECK(has(toml_error("a = \"x\n"), "does not end"));
  CHECK(has(toml_error("a = [1, 2\n"), "is missing"));
  CHECK(has(toml_error("a = 1 2\n"), "behind a value"));
  CHECK(has(toml_error("a = word\n"), "is no value"));
  CHECK(has(toml_error("a = 1\n[a]\nb = 1\n"), "is a value, and no table"));
  CHECK_FALSE(toml_error(("a = " + std::string(100, '[')).c_str()).empty());
  const auto tree = parse_toml("\n[t]\n\nx = 1\n", "a.toml");
  CHECK(tree->places.at("t.x").line == 4);
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
