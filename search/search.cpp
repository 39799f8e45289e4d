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

std::size_t chunks_of_way(const Space& space) { return (space.parts_of_way() + kPartsAtOnce - 1) / kPartsAtOnce; }

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

/// Takes chunks of the space until none is left: some parts of every way of a kin. `rankings`: by way, of each its
/// chunks, which come in the order of the space.
void work(const Space& space, const Round& round, const SearchOptions& options, std::atomic<std::size_t>& next,
          std::vector<Ranking>& rankings, bool reports) {
  Ranker ranker(space, round.roomy);
  const std::size_t of_way = chunks_of_way(space), count = space.kin.size() * of_way,
                    scattered = scattering_step(count);
  for (std::size_t turn; (turn = next.fetch_add(1)) < count;) {
    if (options.stop && *options.stop) return;
    const std::size_t kin = turn * scattered % count / of_way, chunk = turn * scattered % count % of_way;
    const std::size_t end = std::min(space.parts_of_way(), (chunk + 1) * kPartsAtOnce);
    for (std::size_t part = chunk * kPartsAtOnce; part < end; ++part)
      for (const std::size_t way : space.kin[kin])
        if (space.ways[way].recipe.offload.any() == round.offloads)
          ranker.rank(way * space.parts_of_way() + part, rankings[way * of_way + chunk]);
    if (reports && options.progress) options.progress(round.share_before + double(turn + 1) / double(count) / 2);
  }
}

Ranking search_round(const Space& space, const Round& round, const SearchOptions& options) {
  const std::size_t num_chunks = space.kin.size() * chunks_of_way(space);
  std::vector<Ranking> rankings(space.ways.size() * chunks_of_way(space));
  std::atomic<std::size_t> next{0};
  on_cores(
      num_threads_for(options.num_threads, num_chunks),
      [&](std::size_t thread) { work(space, round, options, next, rankings, thread == 0); },
      [&] { next = num_chunks; });
  Ranking out;
  std::size_t num_plans = 0, num_over = 0;
  for (const Ranking& chunk : rankings) num_plans += chunk.plans.size(), num_over += chunk.over_limits.size();
  out.plans.reserve(num_plans);
  out.over_limits.reserve(num_over);
  for (Ranking& chunk : rankings) out.add(std::move(chunk));
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
