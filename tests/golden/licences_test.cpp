// data/licences.yaml has the terms of every source that the other files of data/ name.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/names.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "cli/licences.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<Json> documents_of(const fs::path& file) {
  std::vector<Json> out;
  if (file.extension() == ".yaml") out.push_back(parse_yaml11(read_file(file), file.string())->root);
  if (file.extension() == ".json") out.push_back(Json::parse(read_file(file)));
  if (file.extension() != ".jsonl") return out;
  for (const std::string& line : split(read_file(file), '\n'))
    if (!line.empty()) out.push_back(Json::parse(line));
  return out;
}

/// A text in which a file says where its figures are from.
struct Source {
  std::string text;
  bool is_collection = false;  // it stands for many rows: points of data/validation, lists of `sources`
  bool is_of_model = false;    // in data/models
};

void collect(const Json& value, Source kind, std::vector<Source>& found) {
  const auto add = [&](const std::string& text, bool is_collection) {
    kind.text = text;
    found.push_back(kind);
    found.back().is_collection |= is_collection;
  };
  if (!value.is_structured()) return;
  for (const auto& [key, inner] : value.items()) {
    if (inner.is_string() && (key == "source" || key.ends_with("_source"))) add(inner, false);
    if (inner.is_object() && key == "sources")
      for (const auto& [id, text] : inner.items()) add(text, true);
    if (inner.is_structured()) collect(inner, {.is_of_model = kind.is_of_model}, found);
  }
}

std::vector<Source> sources_of_data() {
  std::vector<Source> found;
  for (const auto& entry : fs::recursive_directory_iterator(data_dir())) {
    const fs::path& file = entry.path();
    const std::string folder = file.parent_path().filename();
    if (file.filename() == "licences.yaml" || !entry.is_regular_file()) continue;
    if (folder == "demo") continue;  // made here, from the pages of this project
    for (const Json& document : documents_of(file))
      collect(document, {.is_collection = file.extension() == ".jsonl", .is_of_model = folder == "models"}, found);
  }
  return found;
}

/// "owner/name" where a text names a repository: before a commit or the number of an issue, and at its start. Texts of
/// data/models name models of the Hub, which look the same.
std::vector<std::string> repositories_in(const Source& source) {
  static const std::regex kRepository(
      R"(([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9][\w.-]*[\w-])((?: [\w./-]+)? @[0-9a-f]| issue | pull | PR #)?)"),
      kFile(R"(.*\.(py|md|json|h)|(data|docs|scripts)/.*)");
  std::vector<std::string> out;
  for (std::sregex_iterator at(source.text.begin(), source.text.end(), kRepository), end; at != end; ++at) {
    const bool is_start = at->position() == 0 && !source.is_of_model;
    if ((is_start || (*at)[2].matched) && !std::regex_match((*at)[1].str(), kFile)) out.push_back((*at)[1]);
  }
  return out;
}

bool names_it(const SourceTerms& row, const std::string& text) {
  return std::ranges::any_of(row.marks, [&](const std::string& mark) { return text.find(mark) != std::string::npos; });
}

bool is_covered(const Licences& licences, const std::string& text) {
  return std::ranges::any_of(licences.sources, [&](const SourceTerms& row) { return names_it(row, text); });
}

}  // namespace

TEST_CASE("every collection that data/ takes points or figures from has its terms in data/licences.yaml") {
  const Licences licences = read_licences();
  std::set<std::string> collections;
  for (const Source& source : sources_of_data())
    if (source.is_collection) collections.insert(source.text);
  CHECK(collections.size() > 40);
  for (const std::string& text : collections)
    CHECK_MESSAGE(is_covered(licences, text), "no row of data/licences.yaml is for: ", text);
}

TEST_CASE("every repository that data/ names has its terms in data/licences.yaml") {
  const Licences licences = read_licences();
  std::set<std::string> repositories;
  for (const Source& source : sources_of_data())
    for (const std::string& name : repositories_in(source))
      if (!source.is_of_model || !is_covered(licences, source.text)) repositories.insert(name);
  CHECK(repositories.size() > 30);
  for (const std::string& name : repositories)
    CHECK_MESSAGE(is_covered(licences, name), "no row of data/licences.yaml is for: ", name);
}

TEST_CASE("no row of data/licences.yaml is for a source that no file names") {
  const std::vector<Source> sources = sources_of_data();
  for (const SourceTerms& row : read_licences().sources)
    CHECK_MESSAGE(std::ranges::any_of(sources, [&](const Source& source) { return names_it(row, source.text); }),
                  row.name);
}

TEST_CASE("the licence of the program is the whole Apache License, and the NOTICE names it") {
  const fs::path root = fs::path(GPUPLAN_TEST_DIR).parent_path();
  const std::string licence = read_file(root / "LICENSE");
  CHECK(licence.find("Version 2.0, January 2004") != std::string::npos);
  CHECK(licence.find("END OF TERMS AND CONDITIONS") != std::string::npos);
  CHECK(read_file(root / "NOTICE").find("Apache License, Version 2.0") != std::string::npos);
}

}  // namespace gpuplan
