#include "base/archive.h"

#include <algorithm>
#include <ctime>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json_file.h"
#include "base/yaml_file.h"

using namespace gpuplan;
using nlohmann::json;

namespace gpuplan {
namespace {

enum class Fruit : std::uint8_t { Apple, Pear };
constexpr std::array kFruits{NameRow<Fruit>{"apple", Fruit::Apple}, NameRow<Fruit>{"pear", Fruit::Pear},
                             NameRow<Fruit>{"pomme", Fruit::Apple}};
constexpr NameTable<Fruit> names_of(Fruit) { return {"fruit", kFruits}; }

/// One pair of numbers in the file.
struct Span {
  double from{}, to{};
};
bool read_field(Fields& fields, std::string_view key, const json&, Span& span) {
  const auto ends = fields.numbers(key);
  if (ends.size() == 2) return span = {ends[0], ends[1]}, true;
  return fields.report(key, "must be two numbers"), false;
}
FieldWriter::Json write_field(const Span& span) { return {span.from, span.to}; }

struct Item {
  std::string name;
  std::int64_t count = 1;
};
struct Box {
  Fruit fruit{};
  Bytes memory;
  Seconds latency;
  std::optional<double> price;
  std::string note = "none";
  std::vector<std::string> tags;
  std::vector<Item> items;
  Span span;
};

template <class Archive, class B>
void list_box(Archive& f, B& box) {
  f("fruit", box.fruit);
  f("memory_mib", box.memory);
  f("latency_us", box.latency);
  f("price", box.price, NumberRange{0, 100});
  f.optional("note", box.note);
  f("tags", box.tags);
  f.objects("items", box.items, [](auto& row, auto& item) {
    row("name", item.name);
    row.optional("count", item.count, IntRange{1, 9});
  });
  f("span", box.span);
}

Box read_box(Fields fields) {
  Box box;
  list_box(fields, box);
  fields.refuse_unknown();
  fields.finish();
  return box;
}

std::string error_of(const json& object) {
  try {
    return read_box(Fields(object, "box.json")), std::string();
  } catch (const InputError& error) { return error.what(); }
}

json good_box() {
  return json::parse(R"({"fruit": "pear", "memory_mib": 2, "latency_us": 3.5, "price": null, "tags": ["a"],
                         "items": [{"name": "x", "count": 2}, {"name": "y"}], "span": [1, 2]})");
}

}  // namespace
}  // namespace gpuplan

TEST_CASE("archive: one description reads JSON and YAML alike, with units by key") {
  const json object = good_box();
  YamlFile file = YamlFile::parse(
      "fruit: pear\nmemory_mib: 2\nlatency_us: 3.5\nprice: null\ntags: [a]\n"
      "items:\n- {name: x, count: 2}\n- name: y\nspan: [1, 2]\n",
      "box.yaml");
  for (const Box& box : {read_box(Fields(object, "box.json")), read_box(file.top())}) {
    CHECK(box.fruit == Fruit::Pear);
    CHECK(box.memory == Bytes{2 << 20});
    CHECK(box.latency.value == 3.5e-6);
    CHECK_FALSE(box.price);
    CHECK(box.note == "none");
    CHECK(box.tags == std::vector<std::string>{"a"});
    CHECK(box.items.size() == 2);
    CHECK(box.items[1].count == 1);
    CHECK(box.span.to == 2);
  }
}

TEST_CASE("archive: what is written in base units is read back") {
  FieldWriter out;
  const Box box{.fruit = Fruit::Pear, .price = 2.5, .tags = {"b"}, .items = {{"x", 3}}, .span = {0.5, 8}};
  out("fruit", box.fruit);
  out("price", box.price);
  out.optional("empty", std::string());
  out("span", box.span);
  CHECK(out.take().dump() == R"({"fruit":"pear","price":2.5,"span":[0.5,8.0]})");
  FieldWriter infinite;
  CHECK_THROWS_AS(infinite("price", std::numeric_limits<double>::infinity()), BugError);
}

TEST_CASE("archive: each kind of mistake says what would be right, at its place") {
  const auto with = [](const char* pointer, const json& value) {
    json object = good_box();
    object[json::json_pointer(pointer)] = value;
    return error_of(object);
  };
  CHECK(with("/fruit", "pomme") == "box.json: fruit: unknown fruit 'pomme': did you mean 'apple'?");
  CHECK(with("/fruit", "grape") == "box.json: fruit: unknown fruit 'grape': use one of apple, pear");
  CHECK(with("/price", 101) == "box.json: price: 101 is too large, must be 100 or less");
  CHECK(with("/tags", "a") == "box.json: tags: must be a list [...], found \"a\"");
  CHECK(with("/tags/0", 3) == "box.json: tags[0]: must be a text in quotes, found 3");
  CHECK(with("/items/1/count", 0) == "box.json: items[1].count: 0 is too small, must be 1 or more");
  CHECK(with("/items/1/cuont", 1) == "box.json: items[1].cuont: is not a known field; did you mean 'count'?");
  CHECK(with("/span", {1}) == "box.json: span: must be two numbers");
  CHECK(with("/memory_mib", nullptr) == "box.json: memory_mib: is null, a value is needed");
  CHECK(error_of({{"fruit", "pear"}}).find("box.json: 6 problems:\n  memory_mib: is missing") == 0);
}

namespace {

/// Processor time to refuse so many unknown keys.
std::clock_t time_of_unknown_keys(int count) {
  json object = json::object();
  std::string text = "known: 1\n";
  for (int i = 0; i < count; ++i) {
    object["key_" + std::to_string(i)] = i;
    text += "key_" + std::to_string(i) + ": 1\n";
  }
  const std::clock_t start = std::clock();
  YamlFile file = YamlFile::parse(text, "x.yaml");
  for (Fields fields : {Fields(object, "x.json"), file.top()}) {
    for (int i = 0; i < 100; ++i) fields.optional_integer("known_" + std::to_string(i));
    fields.refuse_unknown();
    CHECK_THROWS_WITH_AS(fields.finish(), doctest::Contains("more"), InputError);
  }
  return std::clock() - start;
}

}  // namespace

TEST_CASE("unknown keys are refused in time proportional to their number, in JSON and YAML; their list is cut") {
  time_of_unknown_keys(2'000);  // memory is there
  const std::clock_t few = time_of_unknown_keys(2'000), many = time_of_unknown_keys(40'000);
  CHECK(double(many) < 100 * double(std::max<std::clock_t>(few, 1)));  // linear: 20 times; quadratic: 400 times
}

TEST_CASE("fields of every type are read") {
  const json object{{"i", 3}, {"d", 2.5}, {"b", true}, {"s", "text"}, {"n", nullptr}};
  Fields fields(object, "x.json");
  CHECK(fields.integer("i", {1, 3}) == 3);
  CHECK(fields.number("d") == 2.5);
  CHECK(fields.number("i") == 3);
  CHECK(fields.optional_flag("b") == true);
  CHECK(fields.text("s") == "text");
  CHECK_FALSE(fields.optional_integer("n"));
  CHECK_FALSE(fields.optional_integer("absent"));
  CHECK(fields.has("n"));
  CHECK_FALSE(fields.has("absent"));
  CHECK_NOTHROW(fields.finish());
}

TEST_CASE("one problem is placed at its key, several are listed") {
  const json object{{"i", "3"}, {"n", nullptr}};
  Fields one(object, "x.json", "part.");
  one.integer("i");
  CHECK_THROWS_WITH_AS(one.finish(), "x.json: part.i: must be a whole number, found \"3\"", InputError);
  Fields several(object, "x.json");
  several.integer("i"), several.integer("n"), several.text("s");
  CHECK_THROWS_WITH_AS(several.finish("a hint"),
                       "x.json: 3 problems:\n  i: must be a whole number, found \"3\"\n  n: is null, a value is "
                       "needed\n  s: is missing\n  a hint",
                       InputError);
}

TEST_CASE("whole numbers are checked against their range, however large") {
  const json object = parse_json(
      R"({"small": -1, "large": 11, "huge": 18446744073709551615, "giant": 1e300, "float": 3.0, "bool": true})", "x");
  const auto error_of = [&](const char* key) {
    Fields fields(object, "x");
    fields.integer(key, {0, 10});
    try {
      return fields.finish(), std::string();
    } catch (const InputError& error) { return error.problem(); }
  };
  CHECK(error_of("small") == "-1 is too small, must be 0 or more");
  CHECK(error_of("large") == "11 is too large, must be 10 or less");
  CHECK(error_of("huge") == "18446744073709551615 is too large, must be 10 or less");
  CHECK(error_of("giant").starts_with("must be a whole number"));
  CHECK(error_of("float") == "must be a whole number, found 3.0");
  CHECK(error_of("bool") == "must be a whole number, found true");
  Fields fields(object, "x");
  fields.integer("huge");
  CHECK_THROWS_AS(fields.finish(), InputError);
}

TEST_CASE("unknown fields are refused with the nearest known one") {
  const json object{{"precission", "bf16"}, {"lora", 1}, {"zzz", 1}};
  Fields fields(object, "plan.json", "recipe.");
  fields.optional_text("precision"), fields.optional_integer("lora");
  fields.refuse_unknown();
  CHECK_THROWS_WITH_AS(fields.finish(),
                       doctest::Contains("recipe.precission: is not a known field; did you mean 'precision'?"),
                       InputError);
  CHECK_THROWS_WITH_AS(fields.finish(), doctest::Contains("recipe.zzz: is not a known field"), InputError);
}

TEST_CASE("an object inside an object names its place, and all problems of a file come together") {
  const json object{{"inner", {{"size", "x"}}}, {"wrong", 3}};
  Fields fields(object, "plan.json");
  Fields inner = fields.fields("inner");
  inner.optional_integer("size");
  CHECK_THROWS_WITH_AS(inner.finish(), "plan.json: inner.size: must be a whole number, found \"x\"", InputError);
  CHECK_FALSE(fields.optional_fields("absent"));
  CHECK_FALSE(fields.fields("wrong").optional_integer("size").has_value());
  CHECK_THROWS_WITH_AS(fields.finish(), doctest::Contains("2 problems"), InputError);
  CHECK_THROWS_WITH_AS(fields.finish(), doctest::Contains("wrong: must be an object {...}, found 3"), InputError);
}

TEST_CASE("what is no object has no fields") {
  const json list = json::array(), number = 3;
  CHECK_THROWS_WITH_AS(Fields(list, "x.json"), "x.json: expected an object {...}, found []", InputError);
  CHECK_THROWS_WITH_AS(Fields(number, "x.json", "recipe."), "x.json: recipe: expected an object {...}, found 3",
                       InputError);
}

TEST_CASE("what was read is kept: keys that were asked for, at every depth, by any reader of the object") {
  const json object{{"size", 3},
                    {"name", "a\nb"},
                    {"none", nullptr},
                    {"unread", {{"size", 1}}},
                    {"opened", {{"size", 4}, {"unread", 5}}},
                    {"raw", {{"size", 6}}},
                    {"items", {{{"size", 7}, {"unread", 8}}}}};
  Fields fields(object, "x.json");
  fields.optional_integer("size");
  Fields(fields).find("name");
  fields.find("none"), fields.find("absent"), fields.find("raw");
  fields.fields("opened").integer("size");
  for (Fields& item : fields.list("items")) item.integer("size");
  CHECK(fields.as_read() == json{{"size", 3},
                                 {"name", "a\\x0ab"},
                                 {"none", nullptr},
                                 {"opened", {{"size", 4}}},
                                 {"raw", json::object()},
                                 {"items", {{{"size", 7}}}}});
  CHECK(fields.fields("opened").as_read() == json{{"size", 4}});
}

TEST_CASE("an object that a reader completed is read under its own name, and kept as it was") {
  const json object{{"inner", {{"size", 3}}}}, completed{{"size", 3}, {"width", -1}};
  Fields fields(object, "x.json");
  Fields inner = fields.fields_as("inner", completed);
  fields.find("inner");
  CHECK(inner.integer("size") == 3);
  inner.integer("width", {.least = 0});
  CHECK_THROWS_WITH_AS(fields.finish(), doctest::Contains("x.json: inner.width: -1 is too small"), InputError);
  CHECK(fields.as_read() == object);
}
