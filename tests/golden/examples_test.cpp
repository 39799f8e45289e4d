// examples/ holds the files that the program writes for the plans of examples/README.md. GPUPLAN_UPDATE_GOLDEN=1
// rewrites them.
#include <filesystem>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/sha256.h"
#include "ecosystem/export.h"
#include "golden/command_line.h"
#include "planner/plan/plan_file.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

struct Example {
  std::string folder, flags, target;
};

std::string without_quotes(std::string_view cell) {
  const std::string_view text = trim(cell);
  return std::string(text.substr(1, text.size() - 2));
}

/// Rows of the page's table, whose first three cells stand in backquotes.
std::vector<Example> examples_of(const std::string& page) {
  std::vector<Example> rows;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string> cells = split(line, '|');
    rows.push_back({without_quotes(cells.at(1)), without_quotes(cells.at(2)), without_quotes(cells.at(3))});
  }
  return rows;
}

ExportAnswer answer_of(const Example& example) {
  const test::ScratchFolder scratch;
  const fs::path plan = scratch.path() / "plan.json";
  const test::Ran ran = test::run_line(fmt::format("estimate {} --save {}", example.flags, plan.string()));
  REQUIRE_MESSAGE(ran.code == 0, ran.err);
  const EstimateRequest request = parse_plan(parse_json(read_file(plan), "plan.json"), "plan.json");
  // A plan's own digest changes with each release that gpuplan knows; that of its flags does not.
  return export_plan(request, example.target, {.file = "plan.json", .sha256 = sha256_hex(example.flags)});
}

}  // namespace

TEST_CASE("examples/ holds the files that the program writes for the plans of its page") {
  const fs::path root = fs::path(GPUPLAN_TEST_DIR).parent_path() / "examples";
  const std::vector<Example> examples = examples_of(read_file(root / "README.md"));
  CHECK(examples.size() >= 7);
  std::set<std::string> folders{"README.md", "files"};  // files: of docs/ and README.md (documents_test.cpp)
  for (const Example& example : examples) {
    CAPTURE(example.folder);
    folders.insert(example.folder);
    const ExportAnswer answer = answer_of(example);
    REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
    std::set<std::string> names;
    for (const ExportedFile& file : answer.files) {
      if (file.name.ends_with(".py")) continue;  // data/ecosystem/scripts has them
      const fs::path path = root / example.folder / file.name;
      names.insert(file.name);
      make_folders(root / example.folder);
      if (test::is_updating()) write_file_atomically(path, file.content);
      CHECK_MESSAGE((is_file(path) && read_file(path) == file.content), file.name,
                    ": run with GPUPLAN_UPDATE_GOLDEN=1 and review the difference");
    }
    const std::vector<std::string> there = names_in(root / example.folder);
    CHECK(std::set<std::string>(there.begin(), there.end()) == names);
  }
  const std::vector<std::string> there = names_in(root);
  CHECK(std::set<std::string>(there.begin(), there.end()) == folders);
}

}  // namespace gpuplan
