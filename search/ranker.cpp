#include "search/ranker.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/narrow.h"
#include "models/training_method.h"
#include "planner/engine_gpus.h"
#include "planner/job_metrics.h"
#include "planner/pipeline_schedule.h"
#include "planner/program_builder.h"
#include "planner/recommend.h"
#include "search/frontier.h"
#include "search/spot.h"

namespace gpuplan {

/// A machine of the part that is ranked, with what its plans share.
struct Ranker::Bench {
  std::size_t machine{};
  Job* job{};
  std::optional<StepColumns> columns;  // made when the first plan fits
  const CommModel* comm = nullptr;     // then too
  std::optional<AccuracyRange> range;  // around memory: that of AMD's cards is wider
  bool is_full = false;                // what it must hold at least does not fit
  StepTime full;                       // of a step whose micro-batches just fill the stages of a pipeline
  std::int64_t too_large = std::numeric_limits<std::int64_t>::max();  // micro batch that did not fit while accumulating
};

namespace {

/// `from` is given back at once: together they would need twice the memory.
void append(std::vector<RankedPlan>& to, std::vector<RankedPlan>& from) {
  to.insert(to.end(), from.begin(), from.end());
  std::vector<RankedPlan>().swap(from);
}

}  // namespace

void Ranking::note(const NearMiss& miss) {
  const auto place = [](const NearMiss& m) {
    const RankedPlan& p = m.plan;
    return std::tuple(m.needed / m.has, p.way, p.machine, p.strategy, p.batch.micro, p.batch.accum);
  };
  if (!nearest || place(miss) < place(*nearest)) nearest = miss;
}

void Ranking::add(Ranking&& other) {
  if (other.nearest) note(*other.nearest);
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
  std::ranges::sort(places_);
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
  if (part.strategy.pp > 1) r.recipe.grad_accum = part.strategy.pp;  // each batch is looked at by itself
  out.why_not = why_not_applicable(out.strategy, cluster, r.recipe, r.model);
  if (out.why_not.empty() && space.question.base.strategy == "auto")
    out.why_not = why_not_chosen(out.strategy, space.framework);
  if (out.why_not.empty() && idles_gpus(space.question, out.strategy, cluster)) out.why_not = "leaves GPUs idle";
  return out;
}

}  // namespace

/// Each further round of micro-batches takes as long as the last one: neither the launches nor the transfers of a round
/// take longer than it, so that no lead that one of them had is used up in a later round.
static bool is_steady(const StepTime& before, const StepTime& now) {
  const double round = now.step.value - before.step.value;
  return now.host.value - before.host.value <= round && now.communication.value - before.communication.value <= round;
}

/// Each further micro-batch needs memory until the end of the step.
static bool holds_micro_batches(const FrameworkPipeline& p) {
  return p.holds_received || p.holds_outputs || p.holds_input_gradients || p.merges_outputs;
}

void Ranker::rank_batches(const Space::Part& part, Ranking& out) {
  const SearchQuestion& q = space_.question;
  const Applied applied = apply(space_, part, q.machines[part.machines.machines.front()].cluster);
  const std::vector<Batch> batches =
      space_.batches(std::max<std::int64_t>(1, applied.strategy.mesh.batch_replicas()), part.strategy);
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
      reject(part.strategy.fewer_chunks > 0
                 ? "stages idle little with fewer chunks of layers"
                 : "the global batch is not a multiple of the data-parallel ranks times the micro batch");
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
    bench.job->request.rollout.engine = engine_on(part.way, q.machines[m]);
    bench.job->use(applied.strategy);
    bench.range = memory_range(*bench.job);
  }
  const bool is_staged = applied.strategy.mesh.num_stages() > 1,
             shares_program = !is_staged || part.strategy.pp > 1;  // mp cuts stages by the memory of their GPUs
  // micro-batches with which every stage of a pipeline holds as many as it ever will
  const PipelineRow* const schedule = pipeline_row(applied.strategy.schedule);
  const std::int64_t enough = schedule && !schedule->holds_all ? 2 * part.strategy.pp : 1;
  for (const Batch batch : batches) {
    if (part.strategy.pp > 1 && !benches.empty()) {
      Recipe recipe = part.way.recipe;
      recipe.grad_accum = batch.accum;
      if (!why_not_divided(applied.strategy, recipe, q.base.model).empty()) {
        out.rejected["micro-batches do not divide into groups of a pipeline's stages"] += std::ssize(benches);
        continue;
      }
    }
    std::vector<Bench*> left;
    for (Bench& bench : benches) {
      if (bench.is_full || (batch.accum > enough && batch.micro >= bench.too_large)) {
        ++out.rejected["does not fit"];
        ++out.num_skipped;
      } else if (roomy_ && part.way.without_offload &&
                 roomy_->contains(*part.way.without_offload, bench.machine, part.strategy_index, batch)) {
        ++out.rejected["needs no offload"];
        ++out.num_skipped;
      } else {
        left.push_back(&bench);
      }
    }
    bool is_built = false;
    const auto build = [&](Bench& bench, std::int64_t accum) {
      const Job& job = *bench.job;
      bench.job->request.recipe.micro_batch = batch.micro;
      bench.job->request.recipe.grad_accum = accum;
      const bool is_there = std::exchange(is_built, true) && shares_program;
      if (!is_there) {
        const std::optional<Job> fullest = fullest_job(job);
        const Job& full = fullest ? *fullest : job;
        StepProgram& program = built_for(job).program;
        build_step_program(program, full, {}, {}, &blocks_, Layers::Folded);
        passes_ = replay_passes(full, program);
        common_ = CommonMemory(full, program);
      }
      if (!is_there || generates(job.recipe())) {
        peaks_ = passes_;
        add_engine(peaks_, job);
      }
      if (is_there) return;
      built_for(job).is_resolved = false;
      if (padded_length(job.recipe(), job.request.dataset) != job.recipe().seq_len)
        build_step_program(built_for(job).average, average_job(job), {}, {}, &blocks_, Layers::Folded);
      ++out.num_built;
    };
    // Once its stages are full, a pipeline takes as long for each further round of micro-batches, and no more memory
    // where nothing of a micro-batch stays.
    const std::int64_t round = part.strategy.pp, full = enough + batch.accum % round;
    const bool may_skip = enough > 1 && batch.accum >= 3 * enough && !holds_micro_batches(space_.framework.pipeline);
    const std::int64_t skipped = may_skip ? (batch.accum - full) / round - 1 : 0;  // rounds
    if (enough > 1 && batch.accum > enough)
      std::erase_if(left, [&](Bench* bench) {
        build(*bench, full);
        const bool fits =
            evaluate_built(estimate_, *bench->job, built_for(*bench->job).program, peaks_, common_, bench->range);
        if (fits && skipped > 0) bench->full = time_of_built(part, *bench);
        if (!fits) {
          bench->too_large = std::min(bench->too_large, batch.micro);
          ++out.rejected["does not fit"];
          out.note(miss_of(part, *bench, batch));
        }
        return !fits;
      });
    is_built = false;
    for (Bench* bench : left) {
      build(*bench, skipped > 0 ? full + round : batch.accum);
      const bool skips = skipped > 0 && is_steady(bench->full, time_of_built(part, *bench));
      if (skipped > 0 && !skips) {
        is_built = false;
        build(*bench, batch.accum);
        is_built = false;
      }
      rank_one(part, *bench, batch, skips ? skipped : 0, out);
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

Ranker::Built& Ranker::built_for(const Job& job) {
  return built_[std::size_t(std::min(job.recipe().grad_accum, std::int64_t(built_.size()))) - 1];
}

StepTime Ranker::time_of_built(const Space::Part& part, Bench& bench) {
  const Job& job = *bench.job;
  if (!bench.columns) {
    bench.columns = make_columns(job);
    bench.comm = &comm_on(bench.machine, part.strategy_index, job);
  }
  const Recipe& recipe = job.recipe();
  const bool is_average = padded_length(recipe, job.request.dataset) != recipe.seq_len;
  Built& built = built_for(job);
  StepProgram& timed = is_average ? built.average : built.program;
  timed.costs.clear();
  for (const CostModel& model : bench.columns->models) timed.costs.push_back(blocks_.costs_of(timed, model));
  for (RankClass& c : timed.classes) c.costs = bench.columns->of_rank[std::size_t(c.first_rank)];
  if (!std::exchange(built.is_resolved, true)) resolve(built.timed, timed);
  return known_forward_pass(timed, built.timed, bench.columns->models, *bench.comm);
}

void Ranker::rank_one(const Space::Part& part, Bench& bench, Batch batch, std::int64_t skipped_rounds, Ranking& out) {
  const Job& job = *bench.job;
  StrategyEstimate& e = estimate_;
  const bool fits = evaluate_built(e, job, built_for(job).program, peaks_, common_, bench.range);
  if (e.fit == Fit::IfHost && space_.question.is_rented) {
    ++out.rejected[std::string(kTooMuchOnHost)];
    out.note(miss_of(part, bench, batch));
    return;
  }
  if (!fits) {
    ++out.rejected["does not fit"];
    out.note(miss_of(part, bench, batch));
    if (job.strategy.mesh.num_stages() > 1) return;  // with fewer micro-batches it holds fewer of them at a time
    if (batch.accum > 1) bench.too_large = std::min(bench.too_large, batch.micro);
    bench.is_full = chance_to_run(least_tiers(job, e), e.memory_range) < kTightFrom;
    return;
  }
  Seconds step = time_of_built(part, bench).step;
  if (skipped_rounds > 0) step += double(skipped_rounds) * (step - bench.full.step);
  bench.job->request.recipe.grad_accum = batch.accum;
  step += side_time(job, *bench.columns, step).step;
  price(part, bench, batch, e, step, out);
}

RankedPlan Ranker::plan_of(const Space::Part& part, const Bench& bench, Batch batch, const StrategyEstimate& e) const {
  const Hardware& machine = space_.question.machines[bench.machine];
  return {.way = narrow<std::uint32_t>(part.way_index),
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
          .chance = e.chance,
          .step = {},
          .total = {},
          .cost = {}};
}

NearMiss Ranker::miss_of(const Space::Part& part, const Bench& bench, Batch batch) const {
  const StrategyEstimate& e = estimate_;
  NearMiss miss{
      .plan = plan_of(part, bench, batch, e), .needed = e.tiers.needed, .has = e.tiers.usable, .is_of_host = false};
  const Bytes known = e.host.capacity, host = known.count > 0 ? known : e.host.usual;
  const bool limits = known.count > 0 || (space_.question.is_rented && host.count > 0);
  if (!limits || e.host.needed() / host <= miss.needed / miss.has) return miss;
  miss.is_of_host = true;
  miss.needed = e.host.needed();
  miss.has = host;
  return miss;
}

void Ranker::price(const Space::Part& part, const Bench& bench, Batch batch, const StrategyEstimate& e, Seconds step,
                   Ranking& out) const {
  const SearchQuestion& q = space_.question;
  const Hardware& machine = q.machines[bench.machine];
  const Seconds total = time_before_training(*bench.job, *bench.columns) + total_time(*bench.job, step);
  const Mesh& mesh = bench.job->strategy.mesh;
  const auto num_used = double(mesh.world() + engine_gpus(bench.job->request, mesh));
  const double gpu_hours = num_used * total.value / 3600;
  RankedPlan plan = plan_of(part, bench, batch, e);
  plan.step = step;
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
    const double idle_hours = num_used * q.overhead.value / 3600;
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

bool idles_gpus(const SearchQuestion& q, const Strategy& strategy, const ClusterSpec& cluster) {
  const bool has_idle = strategy.mesh.world() < cluster.num_gpus();
  if (has_idle && pipeline_row(strategy.schedule)) return true;  // data parallel groups use the others
  if (!q.is_rented || q.pinned.contains("strategy")) return false;
  return has_idle || strategy.takes_turns();
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
  r.rollout.engine = engine_on(space.ways[plan.way], machine);
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
