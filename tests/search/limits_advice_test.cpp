// The lines beside the first row: limits that would do, prices without a date, and cheaper plans that offload.
#include <algorithm>

#include <doctest/doctest.h>

#include "base/names.h"
#include "search/answer.h"
#include "search/questions.h"

using namespace gpuplan;

namespace {

Offer& offer_of(SearchQuestion& q, std::size_t machine) { return q.machines[machine].offers.front(); }

/// LoRA of a small model on rented machines at these prices.
SearchQuestion rental(const std::vector<std::pair<std::string, double>>& machines) {
  std::vector<std::string> names;
  for (const auto& [name, price] : machines) names.push_back(name);
  SearchQuestion q = test::question("llama-3.2-1b", names, {"packing", "attention", "compile", "checkpointing"});
  q.is_rented = true;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    Offer& offer = offer_of(q, i);
    offer.usd_per_gpu_hour = machines[i].second;
    offer.vendor = offer.name = "vendor";
    offer.date = "2026-11-01";
  }
  return q;
}

double number_behind(const std::string& text) {
  return as_number(text.substr(text.find(' ') + 1, text.find_last_of("0123456789") - text.find(' '))).value_or(0);
}

}  // namespace

TEST_CASE(
    "the budget and the time that would do are those of the cheapest and the fastest plan within the other limit") {
  SearchQuestion q = rental({{"1xA6000", 0.5}, {"1xH100", 3.0}, {"4xH100", 3.0}});
  SearchQuestion open = q;
  open.preference = Preference::Cost;
  const SearchAnswer cheapest = answer(open, "", 1);
  REQUIRE(cheapest.has_plan());
  const double cost = *cheapest.rows.front().cost_usd;
  q.under = 1.01 * cheapest.rows.front().total;  // it just keeps this limit
  q.budget = 0.5 * cost;
  const SearchAnswer none = answer(q, "", 1);
  REQUIRE_FALSE(none.has_plan());
  const auto budget =
      std::ranges::find_if(none.would_do, [](const WouldDo& one) { return one.change.starts_with("--budget"); });
  REQUIRE(budget != none.would_do.end());
  CAPTURE(budget->change);
  CHECK(budget->plan.find("8 of 10 such runs: ") != std::string::npos);
  CHECK(number_behind(budget->change) >= cost);
  CHECK(number_behind(budget->change) <= 1.1 * cost);  // two digits, upwards
  q.budget = number_behind(budget->change);
  CHECK(answer(q, "", 1).has_plan());
}

TEST_CASE("the fewest GPUs are those of prices with a date, and one without that needs fewer is told") {
  SearchQuestion q = rental({{"1xH100", 3.0}, {"2xA6000", 0.5}, {"4xA6000", 0.5}});
  q.takes_fewest_gpus = true;
  const PlanRow fewest = answer(q, "", 3).rows.front();
  CHECK(fewest.gpus.starts_with("1x H100"));
  CHECK(fewest.reason.starts_with("the fewest GPUs that do it; of these "));
  offer_of(q, 0).date = "undated";
  const SearchAnswer found = answer(q, "", 3);
  CHECK(found.rows.front().gpus.starts_with("2x"));
  REQUIRE(found.undated);
  CHECK(found.undated->gpus.starts_with("1x H100"));
}

TEST_CASE("of other GPUs those come first whose price has a date") {
  SearchQuestion q = rental({{"1xA6000", 0.1}, {"1xH100", 0.5}, {"1xA100", 9.0}});
  q.preference = Preference::Cost;
  offer_of(q, 1).date = "undated";
  const SearchAnswer found = answer(q, "", 1);
  REQUIRE(found.by_gpu.size() == 1);
  CHECK(found.by_gpu.front().gpus.starts_with("1x A100"));  // the dearer one
}

TEST_CASE("who asks for the cheapest is told what is cheaper with offload") {
  SearchQuestion q = rental({{"1xA6000", 1.0}, {"4xA6000", 1.0}});
  q.base.model = load_model("qwen2.5-3b").spec;  // 3.1 B x 16 bytes are 49 GB, which one card does not hold
  q.base.recipe.method = Method::Full;
  q.methods = {Method::Full};
  q.preference = Preference::Cost;
  q.pinned.insert({"optimizer", "precision", "optimizer-in-backward"});
  const auto alone = [&](std::size_t machine) {
    SearchQuestion one = q;
    one.machines = {q.machines[machine]};
    const SearchAnswer found = answer(one, "", 1);
    REQUIRE(found.has_plan());
    return found.rows.front();
  };
  const PlanRow offloads = alone(0), keeps = alone(1);
  REQUIRE(offloads.plan.offloads);
  REQUIRE_FALSE(keeps.plan.offloads);
  // 1.5 times as dear: less than what offload has to gain to be recommended
  offer_of(q, 1).usd_per_gpu_hour = 1.5 * *offloads.cost_usd / *keeps.cost_usd;
  const SearchAnswer found = answer(q, "", 1);
  CHECK_FALSE(found.rows.front().plan.offloads);
  REQUIRE_FALSE(found.with_offload.empty());
  CHECK(*found.with_offload.front().cost_usd < *found.rows.front().cost_usd);
  q.preference = Preference::Speed;
  CHECK(answer(q, "", 1).with_offload.empty());
}
