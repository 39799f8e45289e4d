#include "validate/point_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "planner/job.h"

namespace gpuplan {

std::string strategy_of(const Point& point) {
  for (const auto& [axis, degree] : point.degrees)
    if (degree > 1 && axis_named(axis) == Axis::None)
      throw InputError("", fmt::format("{} of degree {}", axis, degree));
  if (point.strategy.empty()) throw InputError("", "the strategy is not stated");
  try {
    return canonical_strategy(point.strategy);
  } catch (const InputError&) { throw InputError("", fmt::format("strategy '{}'", point.strategy)); }
}

namespace {

/// Micro-batches per step: stated, or what the global batch leaves. Throws InputError when that is no whole number.
std::int64_t accumulation_of(const Point& p, const Recipe& recipe, const Strategy& strategy, std::int64_t usual) {
  if (recipe.optimizer_in_backward) return 1;
  if (p.grad_accum) return *p.grad_accum;
  const std::int64_t at_once = recipe.micro_batch * strategy.mesh.batch_replicas();
  const std::int64_t global =
      p.global_batch.value_or(std::int64_t(p.speed.tokens_per_step.value_or(0) / double(recipe.seq_len)));
  if (global < at_once) return usual;  // not stated either
  if (global % at_once != 0)
    throw InputError("", fmt::format("{} sequences per step are no multiple of the {} of one pass", global, at_once));
  return global / at_once;
}

/// Sets the heading of a memory point: what such points have in common that the others do not.
void set_heading(PointPlan& plan, const Point& point, const FrameworkAlias& framework, const Strategy& strategy) {
  if (point.kind != PointKind::Memory || point.skipped.empty()) return;
  if (!point.trained_for.empty()) {
    plan.heading = "preference tuning and other heads";
  } else if (plan.request.model.moe.is_present()) {
    plan.heading = "mixture of experts";
  } else if (plan.request.model.num_encoder_layers > 0) {
    plan.heading = "encoder and decoder";
  } else if (strategy.layout.shards_weights && !framework.sharded_heading.empty()) {
    plan.heading = framework.sharded_heading;
    plan.measures_loading = true;
  }
}

}  // namespace

namespace {

/// NVIDIA's recipes divide the sequence wherever tp is above 1, and torchtitan knows nothing else.
void divide_model(StrategyOptions& options, const Point& point, const AliasTable& aliases) {
  for (const auto& [axis, degree] : point.degrees) {
    if (axis_named(axis) == Axis::Tp) options.tp = degree;
    if (axis_named(axis) == Axis::Cp) options.cp = degree;
    if (axis_named(axis) == Axis::Ep) options.ep = degree;
    if (axis_named(axis) == Axis::Etp) options.etp = degree;
    if (is_pipeline(axis_named(axis))) options.pp = degree;
  }
  const bool is_whole = std::ranges::any_of(
      aliases.whole_sequences, [&](const std::string& source) { return point.source.starts_with(source); });
  options.splits_sequence = options.tp > 1 && point.splits_sequence.value_or(!is_whole);
  options.overlaps_tensor_parallel = point.overlaps_tensor_parallel;
  options.virtual_stages = point.chunks.value_or(1);
  if (!point.stage_layers.empty()) options.stage_layers = parse_stage_layers(point.stage_layers, "stage_layers");
}

}  // namespace

PointPlan PointPlanner::plan(const Point& point) {
  PointPlan out;
  EstimateRequest& r = out.request;
  try {
    r.strategy = strategy_of(point);
    r.model = model_of(point);
    for (const auto& [source, dropout] : aliases_.dropouts)
      if (point.source.starts_with(source)) r.model.residual_dropout = r.model.attention_dropout = dropout;
    const FrameworkAlias framework = framework_of(point, aliases_);
    r.recipe = recipe_of(point, r.model, framework, aliases_);
    if (r.model.checkpoint.is_present()) settle_stack(r);
    r.options.fsdp_version = framework.fsdp_version;
    r.options.shard_size = point.shard_size;
    divide_model(r.options, point, aliases_);
    if (r.options.shard_size) *r.options.shard_size *= r.options.cp;  // sources count the ranks of a sequence apart
    r.cluster = cluster_of(point);
    if (const auto mistake = strategy_mistake(r.strategy, r.cluster, r.options)) throw *mistake;
    const std::int64_t places = num_places(r.cluster, r.options);
    if (places == 1 && point.num_gpus > 1 && r.strategy == "ddp") r.strategy = "single";
    r.strategy = equivalent_strategy(r.strategy, places, r.options, r.recipe.offload);
    const Strategy strategy = make_strategy(r.strategy, r.cluster, r.options);
    r.recipe.grad_accum = accumulation_of(point, r.recipe, strategy, framework.grad_accum);
    if (!strategy.layout.shards_weights)
      r.recipe.offload.params = OffloadTarget::None;  // whole weights stay on the GPU
    validate_recipe(r.recipe, r.model, r.cluster);
    set_heading(out, point, framework, strategy);
    // an engine runs on one GPU too: it shards nothing there and keeps its data types
    out.unsupported = places > 1 || strategy.engine == ShardingEngine::Local
                          ? why_not_applicable(strategy, r.cluster, r.recipe, r.model)
                          : why_not_divided(strategy, r.recipe, r.model);
  } catch (const InputError& error) {
    out.unsupported = error.where().empty() ? error.problem() : fmt::format("{}: {}", error.where(), error.problem());
  }
  return out;
}

}  // namespace gpuplan
