// A request and its simulation in one call, for tests: what a test is about is set on the fields.
#pragma once

#include <string>

#include "models/catalogue.h"
#include "models/ledger.h"
#include "planner/estimate.h"
#include "sim/simulation.h"

namespace gpuplan::test {

inline EstimateRequest request_for(const std::string& model, const std::string& gpus, Method method = Method::Lora,
                                   std::int64_t accumulation = 1) {
  EstimateRequest r;
  r.model = load_model(model).spec;
  r.recipe.method = method;
  if (method != Method::Full) r.recipe.lora = LoraSpec{};
  if (method == Method::Qlora) r.recipe.quant.kind = BaseQuant::Nf4;
  r.recipe.grad_accum = accumulation;
  r.recipe.seq_len = 2048;
  r.cluster = parse_gpus(gpus);
  return r;
}

inline bool is_applicable(const EstimateRequest& r, std::string_view strategy) {
  return why_not_applicable(make_strategy(strategy, r.cluster, r.options), r.cluster, r.recipe, r.model).empty();
}

inline SimulatedPlan simulated(EstimateRequest r, std::string_view strategy, const Profile& profile,
                               const SimOptions& options) {
  const FrameworkConvention& framework = *r.recipe.framework;
  r.options = options_for(r);
  return simulate_plan(
      Job(r, prepare(r.model, r.recipe, framework), framework, profile, make_strategy(strategy, r.cluster, r.options)),
      options);
}

inline SimulatedPlan simulated(const EstimateRequest& r, std::string_view strategy, const SimOptions& options = {},
                               double overlap_slowdown = -1) {
  Profile profile = default_profile(r.cluster.gpus.front());
  if (overlap_slowdown >= 0) profile.overlap_slowdown = overlap_slowdown;
  return simulated(r, strategy, profile, options);
}

}  // namespace gpuplan::test
