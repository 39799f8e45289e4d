// The event run against the forward pass: without shared links both are the same max-plus semantics.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "models/catalogue.h"
#include "planner/estimate.h"
#include "planner/limits.h"
#include "sim/simulation.h"

using namespace gpuplan;

namespace {

EstimateRequest request_for(const std::string& gpus, Method method, std::int64_t accumulation) {
  EstimateRequest r;
  r.model = load_model("llama-3.2-1b").spec;
  r.recipe.method = method;
  if (method != Method::Full) r.recipe.lora = LoraSpec{};
  if (method == Method::Qlora) r.recipe.quant.kind = BaseQuant::Nf4;
  r.recipe.grad_accum = accumulation;
  r.recipe.seq_len = 2048;
  r.cluster = parse_gpus(gpus);
  return r;
}

}  // namespace

TEST_CASE("the event run on analytic links equals the forward pass for every strategy") {
  for (const char* gpus : {"4xA6000", "8xH100", "16xA100", "2x4090"})
    for (const Method method : {Method::Full, Method::Lora, Method::Qlora})
      for (const std::int64_t accumulation : {1, 2, 5})
        for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full}) {
          EstimateRequest r = request_for(gpus, method, accumulation);
          r.recipe.checkpointing = checkpointing;
          const FrameworkConvention& framework = find_framework(r.recipe.framework);
          r.options = options_for(r, framework);
          const TrainedModel model = prepare(r.model, r.recipe, framework);
          Profile profile = default_profile(r.cluster.gpus.front());
          profile.overlap_slowdown = 0;
          for (const std::string_view name : strategy_names()) {
            const Strategy strategy = make_strategy(name, r.cluster, r.options);
            if (!why_not_applicable(strategy, r.cluster, r.recipe, r.model).empty()) continue;
            const SimulatedPlan plan = simulate_plan(r, model, framework, profile, strategy, {.network = NetworkFidelity::Analytic});
            const double forward = plan.estimate.time.step.value, events = plan.simulation.step_time().value;
            CAPTURE(fmt::format("{} {} method {} accumulation {} checkpointing {}", gpus, name, int(method), accumulation, int(checkpointing)));
            CHECK(events == doctest::Approx(forward).epsilon(1e-6));
          }
        }
}
