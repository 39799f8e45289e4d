#include "search/answer.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "search/neighbours.h"
#include "search/row_text.h"
#include "search/shortlist.h"

namespace gpuplan {
namespace {

/// The best of those that fit well, or where none does, tightly. Where some prices have a date, those decide, and plans
/// without one stay that need no more GPUs.
void keep_fewest_gpus(std::vector<RankedPlan>& plans, const SearchQuestion& q) {
  const auto is_dated = [&](const RankedPlan& plan) { return q.machines[plan.machine].offers[plan.offer].is_dated(); };
  const bool wants_dates = q.is_rented && std::ranges::any_of(plans, is_dated);
  const auto decides = [&](const RankedPlan& plan) { return !wants_dates || is_dated(plan); };
  Fit fit = Fit::No;
  for (const RankedPlan& plan : plans)
    if (decides(plan)) fit = std::max(fit, plan.fit);
  const auto gpus = [&](const RankedPlan& plan) { return q.machines[plan.machine].num_gpus(); };
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (const RankedPlan& plan : plans)
    if (plan.fit == fit && decides(plan)) fewest = std::min(fewest, gpus(plan));
  std::erase_if(plans, [&](const RankedPlan& plan) {
    return plan.fit != fit || gpus(plan) > fewest || (decides(plan) && gpus(plan) != fewest);
  });
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

EstimateRequest unsearched(const Space& space) {
  const SearchQuestion& q = space.question;
  const Hardware& machine = *std::ranges::max_element(q.machines, {}, [](const Hardware& h) { return h.num_gpus(); });
  EstimateRequest r = q.base;
  r.rollout.engine = engine_on(space.ways.front(), machine);
  r.cluster = machine.cluster;
  r.profile = std::make_shared<const Profile>(machine.profile);
  return r;
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
  if (question.takes_fewest_gpus) keep_fewest_gpus(plans, question);
  Shortlist list(space, plans, given, out.error, options.num_threads);
  out.rows = list.frontier_rows(most);
  const std::optional<PlanRow> replaced = list.star_as_estimate(out.rows, most);
  if (!out.has_plan()) {
    std::vector<RankedPlan> fitting = std::move(found.ranking.over_limits);
    fitting.insert(fitting.end(), plans.begin(), plans.end());  // that only the simulator finds too slow
    if (fitting.empty() && !found.ranking.nearest && out.is_complete && !space.ways.empty())
      out.refused = unsearched(space);
    if (fitting.empty())
      out.why_none = found.ranking.nearest ? near_miss_text(space, *found.ranking.nearest) : refusal_text(out.rejected);
    if (out.is_complete) out.would_do = what_would_do(space, fitting, options);
    return out;
  }
  if (question.is_rented) out.by_gpu = list.best_by_gpu(out.rows, most);
  out.undated = list.undated_that_beats(out.rows);
  out.with_offload = list.cheaper_with_offload(out.rows.front());
  const std::vector<Merit> merits = list.merits();
  const Merit best = out.rows.front().merit();
  for (PlanRow& row : out.rows) row.reason = reason_of(row, out.rows, question, out.error, merits);
  if (replaced) out.rows.front().reason = reason_of_star(*replaced, out.rows, question, out.error, merits);
  for (PlanRow& row : out.by_gpu) row.reason = reason_of(row, out.rows, question, out.error, merits);
  out.num_equal = std::ranges::count_if(merits,
                                        [&](const Merit& m) {
                                          return m.fit == best.fit && is_no_worse(m, best, out.error) &&
                                                 is_no_worse(best, m, out.error);
                                        }) -
                  1;
  out.knobs = knobs_of(space, out.rows.front());
  if (!question.is_rented && (best.offloads || best.fit == Fit::Tight)) out.would_do = or_rent(question, options);
  return out;
}

}  // namespace gpuplan
