#include "base/data_archive.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/packed_fields.h"
#include "base/sha256.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "environment_variable.h"

using namespace gpuplan;
namespace fs = std::filesystem;

namespace {

/// Files of data/ are taken from an archive while it lives.
struct WithArchive {
  explicit WithArchive(const fs::path& folder) : archive(pack_data(folder)) { use_data_archive(archive); }
  ~WithArchive() { use_data_archive({}); }
  std::string archive;
};

void check_same_tree(ValueTree& packed, ValueTree& parsed) {
  CHECK(packed.root == parsed.root);
  CHECK(packed.format == parsed.format);
  for (const auto& [key, place] : parsed.places) {
    const auto* const found = packed.find_place(key);
    REQUIRE(found);
    CHECK((found->line == place.line && found->key_line == place.key_line && found->order == place.order));
  }
  CHECK(packed.places.size() == parsed.places.size());
}

/// Checks that reading the bytes gives what the parser makes of the text.
void check_same_value(const PackedValue& packed, const nlohmann::json& parsed) {
  if (parsed.is_object()) {
    auto at = parsed.begin();
    const auto pairs = packed.pairs();
    REQUIRE(pairs.size() == parsed.size());
    for (const auto& [key, value] : pairs) {
      REQUIRE(key == at.key());
      check_same_value(value, *at++);
    }
  } else if (parsed.is_array()) {
    const auto items = packed.items();
    REQUIRE(items.size() == parsed.size());
    for (std::size_t k = 0; k < items.size(); ++k) check_same_value(items[k], parsed[k]);
  } else {
    REQUIRE(packed.json() == parsed);
    if (parsed.is_string()) REQUIRE(packed.text() == parsed.get_ref<const std::string&>());
    if (parsed.is_number_integer()) REQUIRE(packed.integer() == parsed.get<std::int64_t>());
  }
}

}  // namespace

TEST_CASE("data archive: every file of data/ has the values and the places of its text") {
  const WithArchive with(data_dir());
  int num_json = 0, num_yaml = 0;
  for (const auto& entry : fs::recursive_directory_iterator(data_dir())) {
    const fs::path file = entry.path();
    CAPTURE(file.string());
    if (file.extension() == ".json") {
      const auto packed = packed_json(file);
      REQUIRE(packed);
      const nlohmann::json parsed = parse_json(read_file(file), file.string());
      CHECK(*packed == parsed);
      check_same_value(PackedValue(*packed_bytes(file, DataFormat::Json)), parsed);
      CHECK(sha256_of_data(file, DataFormat::Json) == sha256_hex(read_file(file)));
      ++num_json;
    }
    if (file.extension() != ".yaml") continue;
    const bool is_yaml11 = file.parent_path().filename() == "ecosystem";
    const auto packed = packed_yaml(file, is_yaml11 ? DataFormat::Yaml11 : DataFormat::Yaml);
    REQUIRE(packed);
    check_same_tree(*packed, is_yaml11 ? *parse_yaml11(read_file(file), file.string())
                                       : *parse_yaml(read_file(file), file.string()));
    CHECK(!packed_yaml(file, is_yaml11 ? DataFormat::Yaml : DataFormat::Yaml11));
    ++num_yaml;
  }
  CHECK(num_json > 300);
  CHECK(num_yaml > 100);
}

TEST_CASE("data archive: other files, and those of a folder that GPUPLAN_DATA_DIR names, are read from the disk") {
  const WithArchive with(data_dir());
  CHECK(!packed_json("/elsewhere/models/index.json"));
  CHECK(!packed_json(data_dir() / "models" / "no-such-model.json"));
  const test::Variable set("GPUPLAN_DATA_DIR", data_dir().c_str());
  CHECK(!packed_json(data_dir() / "models" / "index.json"));
}

TEST_CASE("data archive: fields in its bytes are those of a parsed object, a number of YAML too") {
  std::string bytes;
  const nlohmann::json object{{"name", "x"},   {"none", nullptr},    {"is", true},      {"small", -3},
                              {"count", 4e10}, {"list", {"a", "b"}}, {"text", "70000"}, {"in", {{"key", 1}}}};
  nlohmann::json::to_msgpack(object, bytes);
  const std::string file = "here";
  const PackedFields fields(PackedValue(bytes), file);
  CHECK(fields.text("name") == "x");
  CHECK(fields.text("none").empty());
  CHECK(fields.text("absent").empty());
  CHECK(fields.integer("small") == -3);
  CHECK(fields.integer("text") == 70000);
  CHECK(fields.texts("list") == std::vector<std::string>{"a", "b"});
  CHECK(fields.texts("name") == std::vector<std::string>{"x"});
  CHECK(fields.fields("in").keys() == std::vector<std::string>{"key"});
  CHECK(!fields.optional_fields("none"));
  bool is = false;
  std::optional<std::string> name, none;
  nlohmann::json count;
  CHECK(
      (fields("is", is) && fields.optional("name", name) && !fields.optional("none", none) && fields("count", count)));
  CHECK((is && name == "x" && !none && count == 4e10));
  CHECK_THROWS_AS(PackedValue("\xda\xff\xff").text(), BugError);  // a text that ends too early
}

TEST_CASE("data archive: a mistake in a file names its line though nobody asked for places before") {
  const WithArchive with(data_dir());
  YamlFile file = YamlFile::read(data_dir() / "spot.yaml");
  file.top().text("vendors");
  const YamlFile text = YamlFile::parse(read_file(data_dir() / "spot.yaml"), (data_dir() / "spot.yaml").string());
  const auto message_of = [](const YamlFile& one) -> std::string {
    try {
      one.finish();
    } catch (const InputError& error) { return error.what(); }
    return "";
  };
  YamlFile parsed = text;
  parsed.top().text("vendors");
  CHECK(message_of(file) != "");
  CHECK(message_of(file) == message_of(parsed));
}

TEST_CASE("data archive: keys that nobody asked for are noted of files on the disk, which tests read, and not of it") {
  const auto num_unknown = [] {
    YamlFile yaml = YamlFile::read(data_dir() / "spot.yaml");
    Fields json(shipped_json(data_dir() / "stack" / "torch.json"));
    yaml.top().refuse_unknown();
    json.refuse_unknown();
    return std::pair(yaml.top().num_problems() > 0, json.num_problems() > 0);
  };
  CHECK(num_unknown() == std::pair(true, true));
  const WithArchive with(data_dir());
  CHECK(num_unknown() == std::pair(false, false));
}
