// A plan file as `gpuplan estimate FILE` reads it: parsed, and the recipe checked against model and cluster.
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "fuzz/fuzz_input.h"
#include "planner/job.h"
#include "planner/plan/plan_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  fuzz::try_to([&] {
    const EstimateRequest request = parse_plan(parse_json(fuzz::text_of(data, size), "plan.json"), "plan.json");
    validate_recipe(request.recipe, request.model, request.cluster);
  });
  return 0;
}
