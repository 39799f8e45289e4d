// The first row of `plan` and the star of `estimate` are of one rule (planner/recommend.h).
#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planner/changes.h"
#include "planner/recommend.h"
#include "search/answer.h"
#include "search/questions.h"
#include "search/row_text.h"

using namespace gpuplan;

namespace {

Contender contender(double time, double chance, std::int64_t simplicity) {
  return {.rank = 8, .first = time, .second = time, .chance = chance, .simplicity = simplicity};
}

}  // namespace

TEST_CASE("within the error the likelier ones are taken, of these the simplest, and never a slower one") {
  const auto taken = [](const std::vector<Contender>& all) { return best_of(all, 0.15); };
  CHECK(taken({contender(1.0, 0.99, 5), contender(1.1, 0.99, 2)}) == 1);   // the simpler
  CHECK(taken({contender(1.0, 0.99, 5), contender(1.2, 0.99, 2)}) == 0);   // slower by more than the error
  CHECK(taken({contender(1.0, 0.99, 5), contender(1.1, 0.82, 2)}) == 0);   // clearly less likely to fit
  CHECK(taken({contender(1.0, 0.24, 2), contender(1.05, 0.68, 5)}) == 1);  // so where all are tight
}

TEST_CASE("the first row of a rented machine has the strategy that estimate stars for its settings and batch") {
  for (const char* gpus : {"8xrtx-pro-6000-blackwell", "8xA100-80GB", "4xA6000"})
    for (const Preference preference : {Preference::Cost, Preference::Speed}) {
      SearchQuestion q = test::question(std::string(gpus).starts_with("4x") ? "llama-3.1-8b" : "llama-3.1-70b", {gpus});
      q.is_rented = true;
      q.overhead = kReadyTime;
      q.preference = preference;
      q.global_batch = 64;
      Offer& offer = q.machines.front().offers.front();
      offer.usd_per_gpu_hour = 1.5;
      offer.vendor = offer.name = "vendor";
      offer.date = "2026-11-01";
      const SearchAnswer found = answer(q, "", 4);
      REQUIRE(found.has_plan());
      const PlanRow& first = found.rows.front();
      EstimateRequest same = first.request;
      same.strategy = "auto";
      const std::vector<StrategyEstimate> all = estimate_strategies({same, q.machines.front().profile});
      const StrategyEstimate* star = best_of(all, preference, q.machines.front().profile.time_error);
      REQUIRE(star);
      CAPTURE(fmt::format("{}: {} {}", gpus, first.command, first.reason));
      CHECK(star->strategy.name == first.request.strategy);
      // nothing that is as sure is faster by more than the error
      for (const StrategyEstimate& e : all)
        if (e.not_applicable.empty() && e.fits_well() && !e.strategy.takes_turns() &&
            e.num_gpus_used == first.estimate().num_gpus_used)
          CHECK(star->time.step.value <= 1.15 * e.time.step.value + 1e-9);
    }
}

TEST_CASE("a starred row is called simpler only where it has fewer parts than the one that it replaces") {
  SearchQuestion q = test::question("llama-3.1-8b", {"4xA6000"});
  q.is_rented = true;
  q.preference = Preference::Cost;
  const auto row = [&](const char* strategy, double cost, std::int64_t simplicity) {
    PlanRow out;
    out.request = q.base;
    out.request.cluster = q.machines.front().cluster;
    out.request.strategy = strategy;
    out.is_rented = true;
    out.total = Seconds{3600};
    out.plan.total = out.total;
    out.plan.chance = 0.99;
    out.plan.cost = cost;
    out.plan.simplicity = simplicity;
    out.cost_usd = cost;
    return out;
  };
  const PlanRow replaced = row("fsdp", 10, 5);
  const auto reason = [&](std::int64_t simplicity) {
    const std::vector<PlanRow> rows{row("hsdp", 10.5, simplicity)};
    const std::vector<Merit> all{rows.front().merit(), replaced.merit()};
    return reason_of_star(replaced, rows, q, 0.15, all);
  };
  CHECK(reason(3).find("and simpler;") != std::string::npos);
  CHECK(reason(7).find("simpler") == std::string::npos);
  CHECK(reason(7).find("what estimate recommends;") != std::string::npos);
}
