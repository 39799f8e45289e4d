#include "planner/estimate.h"

#include "planner/limits.h"
#include "planner/recommend.h"
#include "planner/validate_recipe.h"

namespace gpuplan {

EstimateResult estimate(const EstimateRequest& request) {
  EstimateRequest r = request;
  validate_recipe(r.recipe, r.model, r.cluster);
  const FrameworkConvention& framework = find_framework(r.recipe.framework);
  r.options = options_for(r, framework);
  EstimateResult out{.model = prepare(r.model, r.recipe, framework), .framework = framework, .profile = profile_of(r)};
  Job job(r, out.model, framework, out.profile, {});
  StepProgram program;
  for (const std::string_view name : strategy_names()) {
    if (r.strategy != "auto" && r.strategy != name) continue;
    Strategy strategy = make_strategy(name, r.cluster, r.options);
    if (std::string why = why_not_applicable(strategy, r.cluster, r.recipe, r.model); !why.empty()) {
      out.strategies.push_back({.strategy = strategy, .not_applicable = why});
      continue;
    }
    job.use(strategy);
    StrategyEstimate e = estimate_strategy(job, program);
    find_limits(e, job, program);
    out.strategies.push_back(std::move(e));
  }
  if (!r.cluster.gpus.front().is_cpu) {
    out.memory_range = default_accuracy().range(Figure::Process, r.recipe.method);
    out.time_range = default_accuracy().range(Figure::StepTime, r.recipe.method);
  }
  out.recommended = recommend(r, out);
  out.assumptions = list_assumptions(r, out);
  return out;
}

}  // namespace gpuplan
