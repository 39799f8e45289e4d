#include "search/mesh_way.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "planner/changes.h"
#include "planner/engine_gpus.h"
#include "planner/job.h"
#include "search/offers.h"
#include "search/search.h"

namespace gpuplan {
namespace {

/// The row of planner/changes that a division may make superfluous; everything else stays as it was answered.
constexpr const char* kFreed = "checkpointing";

std::int64_t global_batch_of(const EstimateResult& answer, const StrategyEstimate* shown) {
  const Recipe& recipe = answer.request.recipe;
  const std::int64_t replicas = shown ? shown->strategy.mesh.batch_replicas() : answer.request.cluster.num_gpus();
  return recipe.micro_batch * recipe.grad_accum * replicas;
}

SearchQuestion question_of(const EstimateResult& answer, std::int64_t global_batch) {
  const EstimateRequest& asked = answer.request;
  SearchQuestion q;
  q.base = asked;
  q.base.cluster = {};
  q.base.not_given = {};
  if (asked.not_given.contains("offload"))  // a mesh that fits needs none
    q.base.recipe.offload.optimizer = q.base.recipe.offload.params = OffloadTarget::None;
  q.machines = {own_machine(asked.cluster, answer.profile, "", asked.price_per_gpu_hour)};
  q.machines.front().engine_gpus = engine_gpus(asked, asked.cluster.num_gpus());
  q.methods = {asked.recipe.method};
  q.global_batch = global_batch;
  q.pinned = {"micro-batch", "cp"};
  for (const Change& row : changes())
    if (row.name != kFreed || !asked.not_given.contains(kFreed)) q.pinned.emplace(row.name);
  q.pinned.erase("grad-accum");
  return q;
}

const RankedPlan* best_of(const std::vector<RankedPlan>& plans, double error) {
  Fit safest = Fit::No;
  for (const RankedPlan& plan : plans) safest = std::max(safest, plan.fit);
  const RankedPlan* fastest = nullptr;
  for (const RankedPlan& plan : plans)
    if (plan.fit == safest && (!fastest || plan.step < fastest->step)) fastest = &plan;
  const RankedPlan* best = fastest;
  for (const RankedPlan& plan : plans)
    if (plan.fit == safest && plan.step <= fastest->step * (1 + error) &&
        std::pair(plan.simplicity, plan.step) < std::pair(best->simplicity, best->step))
      best = &plan;
  return best;
}

std::vector<std::string> flags_of(const Space& space, const RankedPlan& plan, const Recipe& asked) {
  std::vector<std::string> out;
  const Way& way = space.ways[plan.way];
  for (const Setting& setting : way.settings)
    if (way.recipe.checkpointing != asked.checkpointing) out.push_back(describe(setting));
  out.push_back(space.strategies[plan.strategy].flags());
  if (plan.batch.accum != asked.grad_accum) out.push_back(fmt::format("--grad-accum {}", plan.batch.accum));
  return out;
}

}  // namespace

bool may_divide_layers(const EstimateRequest& r) {
  const FrameworkConvention& trainer = *r.recipe.framework;
  const bool has_any = !trainer.tensor_parallel.strategies.empty() || !trainer.pipeline.strategies.empty() ||
                       (!trainer.expert_parallel.strategies.empty() && r.model.moe.is_present());
  return has_any && r.strategy == "auto" &&
         r.options.tp * r.options.pp * r.options.cp * r.options.ep * r.options.ways_of_expert() == 1 &&
         r.cluster.num_gpus() > 1 && !r.cluster.is_mixed();
}

std::optional<BetterWay> better_mesh(const EstimateResult& answer, const StrategyEstimate* shown) {
  if (!may_divide_layers(answer.request)) return {};
  const bool fits = shown && shown->fits();
  const SearchQuestion q = question_of(answer, global_batch_of(answer, fits ? shown : nullptr));
  const Space space(q);
  Found found = search(space);
  std::erase_if(found.ranking.plans, [&](const RankedPlan& plan) {
    const SearchedStrategy& s = space.strategies[plan.strategy];
    const bool is_better =
        !fits || (plan.fit >= shown->fit && plan.step * (1 + answer.profile.time_error) <= shown->time.step);
    return s.tp * s.pp * s.ep == 1 || plan.takes_turns || !is_better;
  });
  const RankedPlan* const best = best_of(found.ranking.plans, answer.profile.time_error);
  if (!best) return {};
  const EstimateRequest request = request_of(space, *best);
  auto plan = estimate_variant({request, answer.profile}, request.strategy);
  if (!plan || !plan->fits()) return {};
  return BetterWay{.flags = flags_of(space, *best, answer.request.recipe), .plan = std::move(*plan)};
}

}  // namespace gpuplan
