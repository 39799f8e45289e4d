#include "search/answer.h"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "search/neighbours.h"
#include "search/on_cores.h"
#include "search/row_text.h"

namespace gpuplan {
namespace {

/// Simulated besides those that are shown, in case the simulator thinks less of some.
constexpr std::size_t kSpare = 3;

PlanRow make_row(const Space& space, const RankedPlan& plan, const std::string& given) {
  const SearchQuestion& q = space.question;
  const Hardware& machine = q.machines[plan.machine];
  PlanRow row;
  row.plan = plan;
  row.request = request_of(space, plan);
  row.offer = machine.offers[plan.offer];
  row.is_rented = q.is_rented;
  row.overhead = q.overhead;
  row.command = command_of(space, plan, given);
  return row;
}

void simulate_row(PlanRow& row) {
  const EstimateRequest& r = row.request;
  const Job job(r, make_strategy(r.strategy, r.cluster, r.options));
  row.simulated = simulate_plan(job, {.records_spans = false});
  const SimulatedPlan& s = row.simulated;
  row.gpus = used_machine(r.cluster, s.estimate.num_gpus_used);
  if (row.offer.is_spot)
    row.slowdown = spot_slowdown(row.offer.spot, s.estimate.save.disk_with_optimizer, r.cluster.num_nodes());
  row.step = s.simulation.step_time();
  row.epoch = row.slowdown * s.epoch, row.total = row.slowdown * s.total + row.overhead;
  if (s.cost_usd) row.cost_usd = row.slowdown * *s.cost_usd + row.overhead_usd();
}

void simulate_all(std::vector<PlanRow>& rows, unsigned num_threads) {
  std::atomic<std::size_t> next{0};
  on_cores(num_threads_for(num_threads, rows.size()), [&](std::size_t) {
    for (std::size_t i; (i = next.fetch_add(1)) < rows.size();) simulate_row(rows[i]);
  });
}

bool meets_limits(const PlanRow& row, const SearchQuestion& q) {
  return (!q.under || row.total <= *q.under) && (!q.budget || !row.cost_usd || *row.cost_usd <= *q.budget);
}

std::vector<Merit> merits_of(const std::vector<PlanRow>& rows) {
  std::vector<Merit> out;
  for (const PlanRow& row : rows) out.push_back(row.merit());
  return out;
}

/// The rows as the simulator sees them: the best first, those without an own merit left out.
std::vector<PlanRow> judged(std::vector<PlanRow> rows, const SearchQuestion& q, double error, std::size_t most) {
  std::vector<PlanRow> kept;
  for (PlanRow& row : rows)
    if (meets_limits(row, q)) kept.push_back(std::move(row));
  const std::vector<Merit> merits = merits_of(kept);
  std::vector<PlanRow> out;
  for (const std::size_t i : frontier(merits, wishes_of(q), error, most)) out.push_back(kept[i]);
  if (out.size() > 2)
    std::stable_sort(out.begin() + 1, out.end(), [](const PlanRow& a, const PlanRow& b) { return a.total < b.total; });
  return out;
}

std::int64_t count_equal(const std::vector<Merit>& all, const Merit& best, double error) {
  return std::count_if(all.begin(), all.end(), [&](const Merit& m) {
    return m.fit == best.fit && is_no_worse(m, best, error) && is_no_worse(best, m, error);
  });
}

/// The best of those that fit well, or where none does, tightly.
void keep_fewest_gpus(std::vector<RankedPlan>& plans, const SearchQuestion& q) {
  Fit fit = Fit::No;
  for (const RankedPlan& plan : plans) fit = std::max(fit, plan.fit);
  const auto gpus = [&](const RankedPlan& plan) { return q.machines[plan.machine].num_gpus(); };
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (const RankedPlan& plan : plans)
    if (plan.fit == fit) fewest = std::min(fewest, gpus(plan));
  std::erase_if(plans, [&](const RankedPlan& plan) { return plan.fit != fit || gpus(plan) != fewest; });
}

/// The best of the plans that fit as well as `best`, without offload unless it offloads.
Seconds least_time_of(const std::vector<RankedPlan>& plans, const RankedPlan& best) {
  Seconds least = best.total;
  for (const RankedPlan& plan : plans)
    if (plan.fit >= best.fit && (best.offloads || !plan.offloads)) least = std::min(least, plan.total);
  return least;
}

/// Without offers of unknown age, where others do it too.
void drop_undated(std::vector<RankedPlan>& plans, const SearchQuestion& q) {
  const auto is_dated = [&](const RankedPlan& plan) { return q.machines[plan.machine].offers[plan.offer].is_dated(); };
  if (q.is_rented && std::any_of(plans.begin(), plans.end(), is_dated))
    std::erase_if(plans, [&](const RankedPlan& plan) { return !is_dated(plan); });
}

/// The best plan of each kind of GPU that no row shows.
std::vector<PlanRow> best_by_gpu(const Space& space, const std::vector<RankedPlan>& plans,
                                 const std::vector<PlanRow>& shown, const std::string& given, double error,
                                 std::size_t most) {
  const SearchQuestion& q = space.question;
  if (!q.is_rented) return {};
  std::map<std::string, std::vector<const RankedPlan*>> kinds;
  for (const RankedPlan& plan : plans) kinds[q.machines[plan.machine].cluster.gpus.front().id].push_back(&plan);
  for (const PlanRow& row : shown) kinds.erase(row.request.cluster.gpus.front().id);
  std::vector<RankedPlan> best;
  std::vector<Merit> merits;
  for (const auto& [id, own] : kinds) {
    std::vector<Merit> all;
    for (const RankedPlan* plan : own) all.push_back(merit_of(*plan, plan->total, plan->cost, true));
    const std::size_t at = best_of(all, wishes_of(q), error);
    best.push_back(*own[at]);
    merits.push_back(all[at]);
  }
  std::vector<PlanRow> out;
  while (!best.empty() && out.size() < most) {
    const auto at = std::ptrdiff_t(best_of(merits, wishes_of(q), 0));
    out.push_back(make_row(space, best[std::size_t(at)], given));
    best.erase(best.begin() + at), merits.erase(merits.begin() + at);
  }
  return out;
}

/// "The nearest: full with zero3 on 2x RTX 3090 needs 93.1 GiB on a GPU, which offers 22.9 GiB."
std::string near_miss_text(const Space& space, const NearMiss& miss) {
  const EstimateRequest r = request_of(space, miss.plan);
  const std::string plan =
      fmt::format("The nearest: {} with {} on {}", method_word(r.recipe), r.strategy, machine_name(r.cluster));
  if (!miss.is_of_host)
    return fmt::format("{} needs {} on a GPU, which offers {}.", plan, format_bytes(miss.needed),
                       format_bytes(miss.has));
  const bool is_known = r.cluster.host_memory.count > 0;
  return fmt::format("{} needs {} of host memory; {} {}.{}", plan, format_bytes(miss.needed),
                     is_known ? "the host has" : "such machines usually have", format_bytes(miss.has),
                     is_known ? "" : " --host-memory says what yours has.");
}

/// The rules that refuse most combinations.
std::string refusal_text(const Rejected& rejected) {
  constexpr std::size_t kMost = 3;
  std::vector<std::pair<std::int64_t, std::string>> rules;
  for (const auto& [why, count] : rejected) rules.emplace_back(-count, why);
  std::ranges::sort(rules);
  std::string text;
  for (std::size_t i = 0; i < std::min(rules.size(), kMost); ++i)
    text += fmt::format("{}{} ({})", i > 0 ? "; " : "", rules[i].second, format_grouped(-rules[i].first));
  return text.empty() ? "" : fmt::format("Refused by: {}.", text);
}

}  // namespace

SearchAnswer answer(const SearchQuestion& question, const std::string& given, std::size_t most,
                    const SearchOptions& options) {
  const Space space(question);
  Found found = search(space, options);
  SearchAnswer out;
  out.rejected = std::move(found.ranking.rejected);
  out.num_plans = found.ranking.num_plans;
  out.seconds = found.seconds;
  out.is_complete = found.is_complete;
  for (const Hardware& machine : question.machines) out.error = std::max(out.error, machine.profile.time_error);
  std::vector<RankedPlan>& plans = found.ranking.plans;
  std::vector<Merit> merits;
  if (question.takes_fewest_gpus) keep_fewest_gpus(plans, question);
  const std::vector<RankedPlan> with_undated = plans;
  drop_undated(plans, question);
  for (const RankedPlan& plan : plans) merits.push_back(merit_of(plan, plan.total, plan.cost, question.is_rented));
  std::vector<PlanRow> rows;
  for (const std::size_t i : frontier(merits, wishes_of(question), out.error, most + kSpare))
    rows.push_back(make_row(space, plans[i], given));
  simulate_all(rows, options.num_threads);
  out.rows = judged(std::move(rows), question, out.error, most);
  if (!out.has_plan()) {
    std::vector<RankedPlan> fitting = std::move(found.ranking.over_limits);
    fitting.insert(fitting.end(), plans.begin(), plans.end());  // that only the simulator finds too slow
    if (fitting.empty())
      out.why_none = found.ranking.nearest ? near_miss_text(space, *found.ranking.nearest) : refusal_text(out.rejected);
    if (out.is_complete) out.would_do = what_would_do(space, fitting, options);
    return out;
  }
  const RankedPlan& best = out.rows.front().plan;
  const Seconds fastest = least_time_of(plans, best);
  for (PlanRow& row : out.rows) row.reason = reason_of(row, out.rows, question, out.error, fastest);
  out.num_equal = count_equal(merits, merit_of(best, best.total, best.cost, question.is_rented), out.error) - 1;
  out.by_gpu = best_by_gpu(space, with_undated, out.rows, given, out.error, most);
  simulate_all(out.by_gpu, options.num_threads);
  out.knobs = knobs_of(space, out.rows.front());
  if (!question.is_rented && (best.offloads || best.fit == Fit::Tight)) out.would_do = or_rent(question, options);
  return out;
}

}  // namespace gpuplan
