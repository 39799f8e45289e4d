#include "search/search.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/date.h"
#include "base/error.h"
#include "base/narrow.h"
#include "planner/job_metrics.h"
#include "planner/recommend.h"
#include "search/on_cores.h"

namespace gpuplan {
namespace {

constexpr std::size_t kPartsAtOnce = 16;

/// A step that visits every one of `count` chunks once and scatters them, so that a search that is stopped has seen a
/// bit of everything.
std::size_t scattering_step(std::size_t count) {
  std::size_t step = std::max<std::size_t>(1, count * 5 / 8);
  while (std::gcd(step, count) != 1) ++step;
  return step;
}

/// The parts of one round: first the ways without offload, then those with it, where there is no room without.
struct Round {
  bool offloads = false;
  const RoomyPlans* roomy = nullptr;
  double share_before = 0;  // of the whole search
};

/// Takes chunks of the space until none is left.
void work(const Space& space, const Round& round, const SearchOptions& options, std::atomic<std::size_t>& next,
          std::vector<Ranking>& chunks, bool reports) {
  Ranker ranker(space, round.roomy);
  const std::size_t num_parts = space.num_parts(), scattered = scattering_step(chunks.size());
  for (std::size_t turn; (turn = next.fetch_add(1)) < chunks.size();) {
    if (options.stop && *options.stop) return;
    const std::size_t chunk = turn * scattered % chunks.size();
    const std::size_t begin = chunk * kPartsAtOnce, end = std::min(num_parts, begin + kPartsAtOnce);
    for (std::size_t part = begin; part < end; ++part)
      if (space.part(part).way.recipe.offload.any() == round.offloads) ranker.rank(part, chunks[chunk]);
    if (reports && options.progress)
      options.progress(round.share_before + double(turn + 1) / double(chunks.size()) / 2);
  }
}

Ranking search_round(const Space& space, const Round& round, const SearchOptions& options) {
  std::vector<Ranking> chunks(std::size_t(ceil_div(std::int64_t(space.num_parts()), std::int64_t(kPartsAtOnce))));
  std::atomic<std::size_t> next{0};
  on_cores(
      num_threads_for(options.num_threads, chunks.size()),
      [&](std::size_t thread) { work(space, round, options, next, chunks, thread == 0); },
      [&] { next = chunks.size(); });
  Ranking out;
  std::size_t num_plans = 0, num_over = 0;
  for (const Ranking& chunk : chunks) num_plans += chunk.plans.size(), num_over += chunk.over_limits.size();
  out.plans.reserve(num_plans);
  out.over_limits.reserve(num_over);
  for (Ranking& chunk : chunks) out.add(std::move(chunk));
  return out;
}

}  // namespace

Found search(const Space& space, const SearchOptions& options) {
  const double begin = clock_seconds();
  Found found;
  found.ranking = search_round(space, {}, options);
  const RoomyPlans roomy(found.ranking.plans);
  found.ranking.add(search_round(space, {.offloads = true, .roomy = &roomy, .share_before = 0.5}, options));
  found.is_complete = !(options.stop && *options.stop);
  found.seconds = clock_seconds() - begin;
  return found;
}

namespace {

/// One plan as `estimate` would answer it; nothing when it is not possible, does not fit or misses a limit.
void estimate_alone(const Space& space, RankedPlan plan, Ranking& out) {
  const SearchQuestion& q = space.question;
  const Hardware& machine = q.machines[plan.machine];
  const EstimateRequest r = request_of(space, plan);
  const StrategyOptions options = options_for(r);
  if (recipe_mistake(r.recipe, r.model, r.cluster) || strategy_mistake(r.strategy, r.cluster, options)) return;
  const Strategy strategy = make_strategy(r.strategy, r.cluster, options);
  if (!why_not_applicable(strategy, r.cluster, r.recipe, r.model).empty()) return;
  if (q.base.strategy == "auto" && !why_not_chosen(strategy, space.framework).empty()) return;
  if (idles_gpus(q, strategy, r.cluster)) return;
  StepProgram program;
  const StrategyEstimate e = estimate_strategy(Job(r, strategy), program);
  if (!e.fits() || (e.fit == Fit::IfHost && q.is_rented)) return;
  const Offer& offer = machine.offers[plan.offer];
  const double slowdown =
      offer.is_spot ? spot_slowdown(offer.spot, e.save.disk_with_optimizer, r.cluster.num_nodes()) : 1;
  plan.fit = e.fit;
  plan.process = e.tiers.process, plan.usable = e.tiers.usable, plan.chance = e.chance;
  plan.offloads = r.recipe.offload.any();
  plan.takes_turns = strategy.takes_turns();
  plan.quality = space.ways[plan.way].quality;
  plan.simplicity = simplicity_of(space.ways[plan.way], strategy, r.cluster.num_gpus());
  plan.step = e.time.step;
  plan.total = slowdown * *e.total + q.overhead;
  plan.has_price = offer.usd_per_gpu_hour.has_value();
  const double gpu_hours = double(e.num_gpus_used) * e.total->value / 3600;
  const double idle_hours = double(e.num_gpus_used) * q.overhead.value / 3600;
  plan.cost = (slowdown * gpu_hours + idle_hours) * offer.usd_per_gpu_hour.value_or(1);
  if ((q.under && plan.total > *q.under) || (q.budget && plan.has_price && plan.cost > *q.budget)) return;
  out.plans.push_back(plan);
}

}  // namespace

Ranking search_by_brute_force(const Space& space) {
  Ranking out;
  const SearchQuestion& q = space.question;
  for (std::size_t i = 0; i < space.num_parts(); ++i) {
    const Space::Part part = space.part(i);
    for (const std::size_t m : part.machines.machines) {
      if (!space.suits(part.way, q.machines[m])) continue;
      EstimateRequest r = q.base;
      r.recipe = part.way.recipe;
      r.rollout.engine = engine_on(part.way, q.machines[m]);
      part.strategy.set(r.options);
      const StrategyOptions options = options_for(r);
      const ClusterSpec& cluster = q.machines[m].cluster;
      if (strategy_mistake(part.strategy.name, cluster, options)) continue;
      const std::int64_t replicas = make_strategy(part.strategy.name, cluster, options).mesh.batch_replicas();
      for (const Batch batch : space.batches(replicas, part.strategy))
        for (std::size_t offer = 0; offer < q.machines[m].offers.size(); ++offer) {
          RankedPlan plan;
          plan.way = narrow<std::uint32_t>(part.way_index), plan.machine = narrow<std::uint32_t>(m);
          plan.offer = narrow<std::uint16_t>(offer), plan.strategy = narrow<std::uint16_t>(part.strategy_index);
          plan.batch = batch;
          ++out.num_plans;
          estimate_alone(space, plan, out);
        }
    }
  }
  return out;
}

}  // namespace gpuplan
