// Plans that released versions saved, tests/planner/plans/<version>/, are still read as they were meant. A version adds
// a folder of its own:
//   gpuplan estimate … --save tests/planner/plans/<version>/<name>.json
#include <filesystem>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "models/stack.h"
#include "models/weights.h"
#include "planner/plan/plan_file.h"
#include "planner/recommend.h"

using namespace gpuplan;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

const fs::path kPlans = fs::path(GPUPLAN_TEST_DIR) / "planner" / "plans";

/// Leaves out libraries that the older plan does not name, as they were not told by version then.
std::string of_libraries_in(const std::string& older, const std::string& versions) {
  StackVersions kept = parse_stack_versions(versions);
  std::erase_if(kept, [&](const auto& library) { return older.find(library.first + "=") == std::string::npos; });
  return versions_text(kept);
}

}  // namespace

TEST_CASE("plans of every released version are read, and mean what they meant") {
  int num_plans = 0;
  for (const std::string& version : names_in(kPlans))
    for (const fs::path& file : files_in(kPlans / version, ".json")) {
      CAPTURE(file.string());
      ++num_plans;
      const json plan = read_json_file(file);
      CHECK(plan.at("gpuplan_version") == version);
      const EstimateRequest request = parse_plan(plan, file.string());
      const EstimateResult result = estimate(request);
      REQUIRE(result.strategies.size() == 1);  // the plan's own
      json again = make_plan(request, result, result.strategies.front());
      if (!plan.at("recipe").contains("versions"))
        again.at("recipe").erase("versions");  // the first had none
      else
        again["recipe"]["versions"] = of_libraries_in(plan["recipe"]["versions"], again["recipe"]["versions"]);
      for (const char* part : {"recipe", "dataset", "cluster", "strategy", "options"})
        CHECK(again.at(part) == plan.at(part));
      CHECK(list_weights(parse_plan(again, "again").model).total_elements() ==
            list_weights(request.model).total_elements());
    }
  CHECK(num_plans >= 19);
}

TEST_CASE("what an older plan lacks is told with the version that made it") {
  json plan = read_json_file(kPlans / "0.1.0" / "lora_ddp.json");
  plan["gpuplan_version"] = "0.0.7";
  plan["recipe"].erase("loss");
  try {
    static_cast<void>(parse_plan(plan, "plan.json"));
    FAIL("a plan without its loss is read");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("recipe.loss: is missing") != std::string::npos);
    CHECK(std::string(error.what()).find("gpuplan 0.0.7 made it, and this is ") != std::string::npos);
  }
}
