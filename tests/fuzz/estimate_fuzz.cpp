// Whatever a plan file may ask for and passes the checks is estimated, explained, and saved as a plan that is read again.
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "fuzz/fuzz_input.h"
#include "planner/explain.h"
#include "planner/plan_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  EstimateRequest request;
  const auto read = [&] { request = parse_plan(parse_json(fuzz::text_of(data, size), "plan.json"), "plan.json"); };
  if (!fuzz::try_to(read) || request.cluster.num_gpus() > 64) return 0;  // large clusters are slow, not different
  EstimateResult result;
  if (!fuzz::try_to([&] { result = estimate(request); })) return 0;
  const StrategyEstimate& chosen = result.strategies.front();
  explain(request, result, chosen);
  if (!chosen.not_applicable.empty()) return 0;
  const std::string saved = make_plan(request, result, chosen).dump();
  const EstimateRequest again = parse_plan(parse_json(saved, "saved"), "saved");
  GPUPLAN_CHECK(make_plan(again, result, chosen).dump() == saved, "a saved plan is read back as it was written");
  return 0;
}
