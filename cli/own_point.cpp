#include "cli/own_point.h"

#include <nlohmann/json.hpp>

#include "base/date.h"
#include "base/error.h"
#include "base/sha256.h"
#include "models/training_method.h"
#include "planner/plan/plan_file.h"

namespace gpuplan {
namespace {

constexpr std::size_t kIdDigits = 12;

nlohmann::json figures_of(const MeasuredRun& run) {
  nlohmann::json out = nlohmann::json::object();
  if (run.step) out["step_seconds"] = run.step->value;
  if (run.parts && !run.step) out["step_seconds"] = run.parts->step.value;
  if (run.tokens_per_second) out["tokens_per_second"] = *run.tokens_per_second;
  if (run.peak) out[std::string(to_string(run.peak_kind)) + "_gib"] = double(run.peak->count) / 0x1p30;
  return out;
}

}  // namespace

std::string own_point(const EstimateResult& planned, const StrategyEstimate& shown, const MeasuredRun& run) {
  if (generates(planned.request.recipe))
    throw InputError("--as-point", "a step of a method that generates has phases, which were not measured",
                     "data/validation/rl_steps.jsonl shows how such a point is written");
  const nlohmann::json plan = make_plan(planned.request, planned, shown);
  nlohmann::json point{{"gpuplan_version", plan.at("gpuplan_version")},
                       {"source", "own measurement"},
                       {"date", today()},
                       {"plan", plan},
                       {"measured", figures_of(run)}};
  point["id"] = "own-" + sha256_hex(point.dump()).substr(0, kIdDigits);
  return point.dump() + "\n";
}

}  // namespace gpuplan
