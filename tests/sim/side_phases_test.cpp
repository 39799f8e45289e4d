// Phases beside the pass with gradients in a simulated step: its spans are of that pass, and the phases fill the step.
#include <algorithm>
#include <memory>

#include <doctest/doctest.h>

#include "models/training_method.h"
#include "planner/asked.h"
#include "sim/simulation.h"

namespace gpuplan {

TEST_CASE("a simulated step is as long as its phases, and its spans end with the pass with gradients") {
  for (const char* method : {"dpo", "kto", "distill"}) {
    CAPTURE(method);
    EstimateRequest r = test::asked("qwen2.5-0.5b", "2xA100");
    r.recipe.objective.method = method;
    if (r.recipe.objective.method->has_pass_of(PassModel::Teacher))
      r.teacher = std::make_shared<ModelSpec>(load_model("qwen2.5-1.5b").spec);
    const Job job(r, make_strategy("ddp", r.cluster, {}));
    const SimulatedPlan plan = simulate_plan(job, {.records_spans = true});
    const Simulation& s = plan.simulation;
    Seconds others, end;
    for (const PhaseFigures& phase : plan.estimate.phases) {
      if (phase.kind != PhaseKind::Training) others += phase.time.step;
      end = std::max(end, phase.begin + phase.time.step);
    }
    CHECK(s.side.seconds().value == doctest::Approx(others.value));
    CHECK(others.value > 0);
    SimTime last;
    for (const Span& span : s.spans) last = std::max(last, span.end);
    CHECK(last == s.with_gradients());
    CHECK(s.step_time().value == doctest::Approx(end.value).epsilon(0.02));  // estimated, and simulated
  }
}

TEST_CASE("a step of one phase is all spans") {
  const EstimateRequest r = test::asked("qwen2.5-0.5b", "2xA100");
  const SimulatedPlan plan = simulate_plan(Job(r, make_strategy("ddp", r.cluster, {})), {.records_spans = true});
  CHECK(plan.simulation.side.ps == 0);
  CHECK(plan.estimate.phases.empty());
}

}  // namespace gpuplan
