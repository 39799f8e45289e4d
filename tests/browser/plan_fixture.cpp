#include "browser/plan_fixture.h"

#include <fmt/format.h>

namespace gpuplan::testing {
namespace {

PlanRow row_of(const std::string& name, double hours, double dollars, Fit fit) {
  PlanRow row;
  row.gpus = "2x " + name;
  row.offer = {.vendor = "vendor",
               .name = "vendor on-demand",
               .source = "price list of " + name,
               .date = "2026-11-23",
               .usd_per_gpu_hour = 2.0,
               .is_spot = false,
               .spot = {}};
  row.is_rented = true;
  row.request.strategy = "fsdp";
  row.request.cluster.gpus.add({.id = "h100-sxm", .name = "H100 SXM", .framework_memory = {80'000'000'000}}, 2);
  row.request.cluster.gpus_per_node = 2;
  row.total = Seconds{3600 * hours};
  row.cost_usd = dollars;
  row.reason = "because of " + name;
  row.command =
      "gpuplan estimate --model " + name + " --gpus 2xh100-sxm --strategy fsdp --rows " + fmt::format("{}", hours);
  StrategyEstimate& e = row.simulated.estimate;
  e.fit = fit;
  e.why_not_yes = fit == Fit::Tight ? "needs luck" : "";
  e.tiers.process = Bytes{60'000'000'000};
  e.tiers.usable = Bytes{80'000'000'000};
  return row;
}

}  // namespace

PlanAnswer small_plan(const std::string& name) {
  PlanAnswer answer;
  answer.question.base.model.name = name;
  answer.question.is_rented = true;
  answer.command = "gpuplan plan --model " + name;
  answer.found.rows = {row_of(name, 4, 38, Fit::Yes), row_of(name, 1, 60, Fit::Yes), row_of(name, 9, 20, Fit::Tight)};
  answer.found.knobs = {{.change = "--checkpointing full",
                         .not_possible = {},
                         .time_ratio = 1.3,
                         .memory = Bytes{-20'000'000'000},
                         .cost_usd = 50.0,
                         .fit = Fit::Yes}};
  answer.found.num_plans = 1000;
  answer.notes = {"a note about " + name};
  return answer;
}

}  // namespace gpuplan::testing
