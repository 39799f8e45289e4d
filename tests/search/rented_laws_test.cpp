// Laws of what `gpuplan plan` shows to someone who pays by the hour: no plan that was priced within the limits is
// cheaper, faster and as sure to fit as one that is shown, and a larger budget never gives a worse plan.
#include <algorithm>
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "sanitized.h"
#include "search/answer.h"
#include "search/questions.h"

using namespace gpuplan;

namespace {

/// One of several GPUs and prices, so that the cheapest is not the fastest.
SearchQuestion random_rental(std::mt19937_64& dice) {
  const auto pick = [&](const auto& values) { return values[std::size_t(dice() % std::size(values))]; };
  const std::vector<std::string> models{"llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b", "qwen2.5-7b"};
  SearchQuestion q = test::question(
      pick(models), {"1xA6000", "2xA6000", "4xA6000", "1xA100", "4xA100", "1xH100", "8xH100", "2x4090", "8x4090"},
      {"packing", "attention", "compile"});
  q.is_rented = true;
  q.overhead = kReadyTime;
  q.base.dataset.rows = pick(std::vector<std::int64_t>{5'000, 50'000, 500'000});
  q.preference = pick(std::vector{Preference::Cost, Preference::Cost, Preference::Speed});
  for (Hardware& machine : q.machines) {
    Offer& offer = machine.offers.front();
    offer.usd_per_gpu_hour = 0.4 + 0.1 * double(dice() % 30);
    offer.vendor = offer.name = "vendor";
    offer.date = "2026-11-01";
  }
  return q;
}

/// Gives the time as it is shown: simulated, with the overhead.
std::pair<double, double> time_and_cost(const Space& space, const RankedPlan& plan) {
  const EstimateRequest r = request_of(space, plan);
  const SimulatedPlan s =
      simulate_plan(Job(r, make_strategy(r.strategy, r.cluster, r.options)), {.records_spans = false});
  const double hours = space.question.overhead.value / 3600;
  return {s.total.value + space.question.overhead.value,
          *s.cost_usd + hours * double(s.estimate.num_gpus_used) * r.price_per_gpu_hour.value_or(0)};
}

}  // namespace

TEST_CASE("no plan within the limits is cheaper, faster and as sure to fit as one that is shown to who pays") {
  std::mt19937_64 dice(51);
  int num_rows = 0, num_rivals = 0;
  for (int i = 0; i < test::num_rounds(2, 6, 40); ++i) {
    const SearchQuestion q = random_rental(dice);
    const SearchAnswer found = answer(q, "--model x", 6);
    REQUIRE(found.has_plan());
    const Space space(q);
    const std::vector<RankedPlan> plans = search(space).ranking.plans;
    for (const PlanRow& row : found.rows) {
      ++num_rows;
      const Merit shown = row.merit();
      // those that the forward pass finds better by most, or as good
      std::vector<std::pair<double, const RankedPlan*>> rivals;
      for (const RankedPlan& plan : plans) {
        const Merit m = merit_of(plan, plan.total, plan.cost, true);
        const bool is_as_sure = m.room >= shown.room && m.quality >= shown.quality && rank_of(m) >= rank_of(shown);
        const double worse = std::max(m.time / shown.time, m.cost / shown.cost);
        if (is_as_sure && worse < 1.02) rivals.emplace_back(worse, &plan);
      }
      std::ranges::sort(rivals, {}, [](const auto& rival) { return rival.first; });
      if (rivals.size() > 5) rivals.resize(5);
      for (const auto& [worse, plan] : rivals) {
        ++num_rivals;
        const auto [time, cost] = time_and_cost(space, *plan);
        CAPTURE(fmt::format("question {}: {} {} s ${} beside {} s ${}", i, row.command, row.total.value, *row.cost_usd,
                            time, cost));
        // the first row has the simplest strategy of its machine within the error
        const bool is_of_its_machine = &row == &found.rows.front() && plan->machine == row.plan.machine;
        if (is_of_its_machine && row.total.value <= time * (1 + found.error)) continue;
        CHECK_FALSE((time * (1 + kAlike) < row.total.value && cost * (1 + kAlike) < *row.cost_usd));
      }
    }
  }
  CHECK(num_rows > 2);
  CHECK(num_rivals > 2);
}

TEST_CASE("the plan of a smaller budget is never better in what was asked for than that of a larger one") {
  std::mt19937_64 dice(7);
  for (int i = 0; i < test::num_rounds(1, 4, 20); ++i) {
    SearchQuestion q = random_rental(dice);
    const SearchAnswer all = answer(q, "--model x", 6);
    REQUIRE(all.has_plan());
    double last = 1e300;
    // at each figure that was shown, and just above it
    std::vector<double> budgets;
    for (const PlanRow& row : all.rows) budgets.insert(budgets.end(), {*row.cost_usd * 1.001, *row.cost_usd * 1.1});
    std::ranges::sort(budgets);
    for (const double budget : budgets) {
      q.budget = budget;
      const SearchAnswer found = answer(q, "--model x", 1);
      if (!found.has_plan()) continue;
      const PlanRow& first = found.rows.front();
      if (first.plan.fit != Fit::Yes || first.plan.offloads) continue;  // a rule that it names
      const double now = score(first.merit(), q.preference);
      CAPTURE(fmt::format("question {}, budget {}: {}", i, budget, first.command));
      CHECK(now <= last * (1 + found.error));  // within it the first row is the simplest
      last = std::min(last, now);
    }
  }
}
