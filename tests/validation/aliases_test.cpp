#include "validate/aliases.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/names.h"
#include "cluster/cluster_spec.h"
#include "cluster/gpu_catalogue.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/optimizers.h"
#include "models/recipe_names.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

const AliasTable& table() {
  static const AliasTable shipped = AliasTable::read();
  return shipped;
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

TEST_CASE("every model alias names a catalogue entry") {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : list_catalogue()) names.push_back(entry.name);
  for (const auto& [text, name] : table().models) {
    CAPTURE(text);
    CHECK(contains(names, name));
  }
}

TEST_CASE("every GPU, optimizer and framework alias names one of ours") {
  for (const auto& [text, alias] : table().gpus) CHECK_MESSAGE(find_gpu(alias.gpu, nullptr).id == alias.gpu, text);
  for (const auto& [text, name] : table().optimizers) CHECK_MESSAGE(find_optimizer(name).name == name, text);
  for (const auto& [text, alias] : table().quants) CHECK_NOTHROW(parse_name<BaseQuant>(alias.kind, text));
  for (const FrameworkAlias& row : table().frameworks) {
    CAPTURE(row.record);
    CHECK_NOTHROW(find_framework(row.record));
  }
}

TEST_CASE("an alias table with a slip is refused with its place") {
  const test::ScratchFolder scratch;
  const auto error_of = [&](const std::string& text) -> std::string {
    try {
      AliasTable::read(scratch.write("aliases.json", text));
    } catch (const InputError& error) { return error.what(); }
    return "";
  };
  CHECK(error_of("{}").find("models") != std::string::npos);
  CHECK(error_of(R"({"models": {"a": 1}})").find("models.a: must be a text in quotes, found 1") != std::string::npos);
}
