// Whatever a plan file may ask for and passes the checks is estimated, explained, and saved as a plan that is read
// again.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "fuzz/fuzz_input.h"
#include "planner/explain.h"
#include "planner/plan/plan_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  EstimateRequest request;
  const auto read = [&] { request = parse_plan(parse_json(fuzz::text_of(data, size), "plan.json"), "plan.json"); };
  if (!fuzz::try_to(read) || request.cluster.num_gpus() > 64) return 0;  // large clusters are slow, not different
  // the strategy of a plan must agree with its mesh, which chance hardly finds: the size of the input chooses another
  const auto names = strategy_names();
  const std::size_t choice = size % (names.size() + 1);
  request.strategy = choice < names.size() ? std::string(names[choice]) : "auto";
  EstimateResult result;
  if (!fuzz::try_to([&] { result = estimate(request); })) return 0;
  const auto& all = result.strategies;
  const auto possible = std::find_if(all.begin(), all.end(), [](const auto& e) { return e.not_applicable.empty(); });
  if (possible == all.end()) return 0;
  const StrategyEstimate& chosen = *possible;
  explain(request, result, chosen);
  const std::string saved = make_plan(request, result, chosen).dump();
  const EstimateRequest again = parse_plan(parse_json(saved, "saved"), "saved");
  GPUPLAN_CHECK(make_plan(again, result, chosen).dump() == saved, "a saved plan is read back as it was written");
  return 0;
}
