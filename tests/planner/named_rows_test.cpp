// The planner and what shows its answers know strategies, trainers, methods and engines by the columns of their rows:
// a source that names one would need an edit for each new row.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/names.h"
#include "models/framework.h"
#include "models/rollout.h"
#include "models/training_method.h"
#include "planner/strategy.h"

using namespace gpuplan;

namespace {

namespace fs = std::filesystem;

std::set<std::string> names_of_rows() {
  std::set<std::string> names;
  const auto add = [&](const auto& rows) {
    for (const auto& row : rows) {
      names.emplace(row.name);
      names.insert(row.aliases.begin(), row.aliases.end());
    }
  };
  for (const std::string_view name : strategy_names()) names.emplace(name);
  add(list_frameworks());
  add(training_methods());
  add(generation_engines());
  names.erase("gpuplan");    // this program is a trainer, too
  names.erase("embedding");  // a part of every model
  return names;
}

/// Sources that may: the table of strategies, and the strategy that a plan has before it has another.
const std::set<std::string> kMay{"planner/strategy.cpp", "planner/strategy.h"};

}  // namespace

TEST_CASE("no source of the planner, the search, the simulator or the reports names a row of a table") {
  const fs::path root = fs::path(GPUPLAN_TEST_DIR).parent_path();
  const std::set<std::string> names = names_of_rows();
  CHECK(names.size() > 60);
  const std::regex literal(R"re("((?:[^"\\]|\\.)*)")re");
  int num_files = 0, num_known = 0;
  for (const char* folder : {"planner", "sim", "search", "report"})
    for (const auto& item : fs::recursive_directory_iterator(root / folder)) {
      if (item.path().extension() != ".cpp" && item.path().extension() != ".h") continue;
      ++num_files;
      const std::string file = item.path().lexically_relative(root).string();
      for (const std::string& line : split(read_file(item.path()), '\n')) {
        const std::string code = line.substr(0, line.find("//"));
        if (code.starts_with("#include")) continue;
        for (auto at = std::sregex_iterator(code.begin(), code.end(), literal); at != std::sregex_iterator(); ++at) {
          if (!names.contains(at->str(1))) continue;
          ++num_known;
          CHECK_MESSAGE(kMay.contains(file), file, " names ", at->str(1), ": ", line);
        }
      }
    }
  CHECK(num_files > 200);
  CHECK(num_known > 8);  // the table's own
}
