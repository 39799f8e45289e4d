#include "planner/advice/what_if.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "planner/validate_recipe.h"

namespace gpuplan {
namespace {

/// As `make_strategy` would choose it for a quantised base.
void choose_fsdp_version(const EstimateRequest& r, const FrameworkConvention& framework, Strategy& strategy) {
  if (strategy.engine == ShardingEngine::Fsdp2 && options_for(r, framework).fsdp_version == 1)
    strategy.engine = ShardingEngine::Fsdp1;
}

std::optional<StrategyEstimate> evaluated(const EstimateRequest& r, const EstimateResult& result, Strategy strategy) {
  choose_fsdp_version(r, result.framework, strategy);
  try {
    validate_recipe(r.recipe, r.model, r.cluster);
    if (!why_not_applicable(strategy, r.cluster, r.recipe, r.model).empty()) return std::nullopt;
    const TrainedModel model = prepare(r.model, r.recipe, result.framework);
    StepProgram program;
    return estimate_strategy(Job(r, model, result.framework, result.profile, strategy), program);
  } catch (const InputError&) { return std::nullopt; }
}

}  // namespace

std::optional<StrategyEstimate> what_if(const AdviceCase& c,
                                        const std::function<void(EstimateRequest&, Strategy&)>& change) {
  EstimateRequest r = c.request;
  Strategy strategy = c.chosen.strategy;
  change(r, strategy);
  return evaluated(r, c.result, std::move(strategy));
}

std::optional<StrategyEstimate> with_recipe(const AdviceCase& c, const std::function<void(Recipe&)>& change) {
  return what_if(c, [&](EstimateRequest& r, Strategy&) { change(r.recipe); });
}

std::optional<StrategyEstimate> with_strategy(const AdviceCase& c, std::string_view name) {
  for (const StrategyEstimate& e : c.result.strategies)
    if (e.strategy.name == name) return e.not_applicable.empty() ? std::optional(e) : std::nullopt;
  try {
    return evaluated(c.request, c.result,
                     make_strategy(name, c.request.cluster, options_for(c.request, c.result.framework)));
  } catch (const InputError&) { return std::nullopt; }
}

StateSizes rank_state(const AdviceCase& c, const Recipe& recipe) {
  const Strategy& s = c.chosen.strategy;
  return model_state(c.result.model, resolve_numerics(recipe, c.result.framework, s.engine), recipe,
                     {.engine = s.engine,
                      .layout = s.layout,
                      .ways = s.mesh.dp_shard,
                      .shards_rows = engine_of(c.result.framework, s.engine).shards_rows});
}

StateSizes whole_state(const AdviceCase& c, const Recipe& recipe) {
  return model_state(c.result.model, resolve_numerics(recipe, c.result.framework, c.chosen.strategy.engine), recipe,
                     {});
}

Bytes trained_state(const StateSizes& s) { return s.trained + s.gradient + s.master + s.state + s.paged_state; }

double per_parameter(Bytes bytes, std::int64_t parameters) { return double(bytes.count) / double(parameters); }

std::string peak_and_step(const StrategyEstimate& e) {
  return fmt::format("{}, {}", format_bytes(peak_of(e)), format_duration(e.time.step));
}

}  // namespace gpuplan
