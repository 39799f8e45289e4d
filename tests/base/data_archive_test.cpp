#include "base/data_archive.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
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
      CHECK(*packed == parse_json(read_file(file), file.string()));
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
