#include "planner/job.h"

namespace gpuplan {

Job::Job(EstimateRequest r, TrainedModel m, FrameworkConvention f, Profile p, Strategy s)
    : request(std::move(r)),
      model(std::move(m)),
      framework(std::move(f)),
      profile(std::move(p)) {
  use(std::move(s));
}

Job::Job(const EstimateRequest& r, Strategy s)
    : Job(r, prepare(r.model, r.recipe, find_framework(r.recipe.framework)), find_framework(r.recipe.framework),
          profile_of(r), std::move(s)) {}

void Job::use(Strategy other) {
  strategy = std::move(other);
  numerics = resolve_numerics(recipe(), framework, strategy.engine);
  rules = size_rules(strategy, framework, model.spec, recipe());
}

Profile profile_of(const EstimateRequest& r) {
  return r.profile ? *r.profile : default_profile(r.cluster.gpus.front());
}

StrategyOptions options_for(const EstimateRequest& r, const FrameworkConvention& framework) {
  StrategyOptions options = r.options;
  if (!options.fsdp_version && r.recipe.quant.kind == BaseQuant::Nf4 && !framework.fsdp2_shards_quantised)
    options.fsdp_version = 1;
  return options;
}

}  // namespace gpuplan
