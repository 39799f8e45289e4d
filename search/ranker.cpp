#include "search/ranker.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/narrow.h"
#include "planner/job_metrics.h"
#include "planner/program_builder.h"
#include "search/frontier.h"
#include "search/spot.h"

namespace gpuplan {

/// A machine of the part that is ranked, with what its plans share.
struct Ranker::Bench {
  std::size_t machine{};
  Job* job{};
  std::optional<StepColumns> columns;                                 // made when the first plan fits
  const CommModel* comm = nullptr;                                    // then too
  bool is_full = false;                                               // what it must hold at least does not fit
  std::int64_t too_large = std::numeric_limits<std::int64_t>::max();  // micro batch that did not fit while accumulating
};

namespace {

/// `from` is given back at once: together they would need twice the memory.
void append(std::vector<RankedPlan>& to, std::vector<RankedPlan>& from) {
  to.insert(to.end(), from.begin(), from.end());
  std::vector<RankedPlan>().swap(from);
}

}  // namespace

void Ranking::add(Ranking&& other) {
  append(plans, other.plans);
  append(over_limits, other.over_limits);
  for (const auto& [why, count] : other.rejected) rejected[why] += count;
  num_plans += other.num_plans;
  num_built += other.num_built;
  num_skipped += other.num_skipped;
}

RoomyPlans::RoomyPlans(const std::vector<RankedPlan>& plans) {
  for (const RankedPlan& p : plans)
    if (!p.offloads && p.fit == Fit::Yes && p.headroom() >= kUsefulHeadroom)
      places_.emplace_back(p.way, p.machine, p.strategy, p.batch.micro, p.batch.accum);
  std::sort(places_.begin(), places_.end());
}

bool RoomyPlans::contains(std::size_t way, std::size_t machine, std::size_t strategy, Batch batch) const {
  return std::binary_search(places_.begin(), places_.end(), Place{way, machine, strategy, batch.micro, batch.accum});
}

Ranker::Ranker(const Space& space, const RoomyPlans* roomy) : space_(space), roomy_(roomy) {}

Job& Ranker::job_on(std::size_t machine, std::size_t model) {
  const auto at = jobs_.find({machine, model});
  if (at != jobs_.end()) return at->second;
  const Hardware& hardware = space_.question.machines[machine];
  EstimateRequest r = space_.question.base;
  r.cluster = hardware.cluster;
  return jobs_
      .try_emplace({machine, model}, std::move(r), space_.models[model], space_.framework, hardware.profile, Strategy{})
      .first->second;
}

const CommModel& Ranker::comm_on(std::size_t machine, std::size_t strategy, const Job& job) {
  const auto [at, is_new] = links_.try_emplace({machine, strategy});
  Links& links = at->second;
  if (is_new || links.mesh != job.strategy.mesh || links.engine != job.strategy.engine)
    links = {job.strategy.mesh, job.strategy.engine, make_step_comm(job)};
  return links.comm;
}

void Ranker::rank(std::size_t index, Ranking& out) {
  const Space::Part part = space_.part(index);
  rank_batches(part, out);
}

namespace {

/// The strategy on the machines of a class, and why it cannot be used there.
struct Applied {
  Strategy strategy;
  std::string why_not;
};

Applied apply(const Space& space, const Space::Part& part, const ClusterSpec& cluster) {
  EstimateRequest r = space.question.base;  // small beside a part: its cluster is empty
  r.recipe = part.way.recipe;
  Applied out;
  part.strategy.set(r.options);
  const StrategyOptions options = options_for(r);
  if (const auto mistake = strategy_mistake(part.strategy.name, cluster, options)) {
    out.why_not = mistake->problem();
    return out;
  }
  out.strategy = make_strategy(part.strategy.name, cluster, options);
  out.why_not = why_not_applicable(out.strategy, cluster, r.recipe, r.model);
  if (out.why_not.empty() && idles_rented_gpus(space.question, out.strategy, cluster))
    out.why_not = "leaves rented GPUs idle";
  return out;
}

}  // namespace

void Ranker::rank_batches(const Space::Part& part, Ranking& out) {
  const SearchQuestion& q = space_.question;
  const Applied applied = apply(space_, part, q.machines[part.machines.machines.front()].cluster);
  const std::vector<Batch> batches = space_.batches(std::max<std::int64_t>(1, applied.strategy.mesh.batch_replicas()));
  std::vector<Bench> benches;
  for (const std::size_t m : part.machines.machines) {
    if (!space_.suits(part.way, q.machines[m])) continue;
    out.num_plans += std::int64_t(std::max<std::size_t>(1, batches.size()));
    const auto reject = [&](const std::string& why) {
      out.rejected[why] += std::int64_t(std::max<std::size_t>(1, batches.size()));
    };
    if (!applied.why_not.empty()) {
      reject(fmt::format("{}: {}", part.strategy.name, applied.why_not));
      continue;
    }
    if (batches.empty()) {
      reject("the global batch is not a multiple of the data-parallel ranks times the micro batch");
      continue;
    }
    if (const std::string why = space_.why_not(part.way, q.machines[m]); !why.empty()) {
      reject(why);
      continue;
    }
    Bench& bench = benches.emplace_back();
    bench.machine = m;
    bench.job = &job_on(m, part.way.model);
    bench.job->request.recipe = part.way.recipe;
    bench.job->use(applied.strategy);
  }
  const bool shares_program = applied.strategy.mesh.num_stages() == 1;
  for (const Batch batch : batches) {
    bool is_built = false;
    for (Bench& bench : benches) {
      if (bench.is_full || (batch.accum > 1 && batch.micro >= bench.too_large)) {
        ++out.rejected["does not fit"];
        ++out.num_skipped;
        continue;
      }
      if (roomy_ && part.way.without_offload &&
          roomy_->contains(*part.way.without_offload, bench.machine, part.strategy_index, batch)) {
        ++out.rejected["needs no offload"];
        ++out.num_skipped;
        continue;
      }
      Recipe& recipe = bench.job->request.recipe;
      recipe.micro_batch = batch.micro;
      recipe.grad_accum = batch.accum;
      if (!is_built || !shares_program) {
        build_step_program(program_, *bench.job, {}, {}, &blocks_, Layers::Folded);
        peaks_ = replay_phases(*bench.job, program_);
        common_ = CommonMemory(*bench.job, program_);
        if (padded_length(recipe, bench.job->request.dataset) != recipe.seq_len)
          build_step_program(average_, average_job(*bench.job), {}, {}, &blocks_, Layers::Folded);
        ++out.num_built;
        is_built = true;
      }
      rank_one(part, bench, batch, shares_program, out);
    }
  }
}

namespace {

/// Gives what the process needs with any batch: what is alive before and after the step, and the fixed overheads, which
/// are at least what is needed beyond tensors and the most that fragmentation counts for.
MemoryTiers least_tiers(const Job& job, const StrategyEstimate& e) {
  const Bytes spread = std::max(Bytes{}, e.peak.pools - e.peak.tensors);
  const Bytes fragments{std::int64_t(double(spread.count) * job.profile.pool_slack)};
  MemoryTiers least = e.tiers;
  least.needed = e.peak.resident + std::max(Bytes{}, e.tiers.needed - e.tiers.tensors - fragments);
  return least;
}

}  // namespace

void Ranker::rank_one(const Space::Part& part, Bench& bench, Batch batch, bool shares_program, Ranking& out) {
  const Job& job = *bench.job;
  StrategyEstimate& e = estimate_;
  const bool fits = evaluate_built(e, job, program_, peaks_, common_);
  if (e.fit == Fit::IfHost && space_.question.is_rented) {
    ++out.rejected[std::string(kTooMuchOnHost)];
    return;
  }
  if (!fits) {
    ++out.rejected["does not fit"];
    if (!shares_program) return;
    if (batch.accum > 1) bench.too_large = std::min(bench.too_large, batch.micro);
    bench.is_full = chance_to_run(least_tiers(job, e), e.memory_range) < kTightFrom;
    return;
  }
  if (!bench.columns) {
    bench.columns = make_columns(job);
    bench.comm = &comm_on(bench.machine, part.strategy_index, job);
  }
  const Recipe& recipe = job.recipe();
  const bool is_average = padded_length(recipe, job.request.dataset) != recipe.seq_len;
  StepProgram& timed = is_average ? average_ : program_;
  timed.costs.clear();
  for (const CostModel& model : bench.columns->models) timed.costs.push_back(blocks_.costs_of(timed, model));
  for (RankClass& c : timed.classes) c.costs = bench.columns->of_rank[std::size_t(c.first_rank)];
  resolve(timed_, timed);
  Seconds step = forward_pass(timed, timed_, bench.columns->models, *bench.comm).step;
  step += side_time(job, *bench.columns).step;
  price(part, bench, batch, e, step, out);
}

void Ranker::price(const Space::Part& part, const Bench& bench, Batch batch, const StrategyEstimate& e, Seconds step,
                   Ranking& out) const {
  const SearchQuestion& q = space_.question;
  const Hardware& machine = q.machines[bench.machine];
  const Seconds total = total_time(*bench.job, step);
  const double gpu_hours = double(bench.job->strategy.mesh.world()) * total.value / 3600;
  RankedPlan plan{.way = narrow<std::uint32_t>(part.way_index),
                  .machine = narrow<std::uint32_t>(bench.machine),
                  .offer = 0,
                  .strategy = narrow<std::uint16_t>(part.strategy_index),
                  .fit = e.fit,
                  .quality = part.way.quality,
                  .offloads = part.way.recipe.offload.any(),
                  .has_price = {},
                  .takes_turns = bench.job->strategy.takes_turns(),
                  .batch = batch,
                  .simplicity = simplicity_of(part.way, bench.job->strategy, machine.num_gpus()),
                  .process = e.tiers.process,
                  .usable = e.tiers.usable,
                  .step = step,
                  .total = {},
                  .cost = {}};
  bool is_first_on_demand = true, is_first_spot = true;
  std::string why;
  bool is_taken = false;
  for (std::size_t i = 0; i < machine.offers.size(); ++i) {
    const Offer& offer = machine.offers[i];
    bool& is_first = offer.is_spot ? is_first_spot : is_first_on_demand;
    // The same machine at a higher price is as fast and as full: it is never better.
    if (!std::exchange(is_first, false)) continue;
    const double slowdown =
        offer.is_spot ? spot_slowdown(offer.spot, e.save.disk_with_optimizer, machine.cluster.num_nodes()) : 1;
    plan.offer = narrow<std::uint16_t>(i);
    plan.total = slowdown * total + q.overhead;
    plan.has_price = offer.usd_per_gpu_hour.has_value();
    const double idle_hours = double(bench.job->strategy.mesh.world()) * q.overhead.value / 3600;
    plan.cost = (slowdown * gpu_hours + idle_hours) * offer.usd_per_gpu_hour.value_or(1);
    const double over_time = q.under ? plan.total / *q.under : 0;
    const double over_budget = q.budget && plan.has_price ? plan.cost / *q.budget : 0;
    if (over_time <= 1 && over_budget <= 1) {
      out.plans.push_back(plan);
      is_taken = true;
      continue;
    }
    out.over_limits.push_back(plan);
    why = over_time > 1 ? "takes longer than --under" : "costs more than --budget";
  }
  if (!is_taken) ++out.rejected[why];
}

bool idles_rented_gpus(const SearchQuestion& q, const Strategy& strategy, const ClusterSpec& cluster) {
  if (!q.is_rented || q.pinned.contains("strategy")) return false;
  return strategy.mesh.world() < cluster.num_gpus() || strategy.takes_turns();
}

std::int64_t simplicity_of(const Way& way, const Strategy& strategy, std::int64_t num_gpus) {
  constexpr std::int64_t kGpus = 10'000, kSettings = 100, kMethod = 20;
  const std::int64_t worse_method = std::int64_t(Quality::Best) - std::int64_t(way.quality);
  return num_gpus * kGpus + way.num_special * kSettings + worse_method * kMethod + strategy.simplicity;
}

EstimateRequest request_of(const Space& space, const RankedPlan& plan) {
  const SearchQuestion& q = space.question;
  const Hardware& machine = q.machines[plan.machine];
  EstimateRequest r = q.base;
  r.recipe = space.ways[plan.way].recipe;
  r.recipe.micro_batch = plan.batch.micro;
  r.recipe.grad_accum = plan.batch.accum;
  r.cluster = machine.cluster;
  r.strategy = std::string(space.strategies[plan.strategy].name);
  space.strategies[plan.strategy].set(r.options);
  r.profile = std::make_shared<const Profile>(machine.profile);
  const Offer& offer = machine.offers[plan.offer];
  if (offer.usd_per_gpu_hour) r.price_per_gpu_hour = offer.usd_per_gpu_hour;
  r.options = options_for(r);
  return r;
}

}  // namespace gpuplan
