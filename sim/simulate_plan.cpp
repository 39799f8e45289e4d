// A strategy of a request, simulated: memory and program from the planner, time from the events.
#include "models/numerics.h"
#include "planner/job_metrics.h"
#include "sim/simulation.h"

namespace gpuplan {

SimulatedPlan simulate_plan(const EstimateRequest& r, const TrainedModel& model, const FrameworkConvention& framework,
                            const Profile& profile, const Strategy& strategy, const SimOptions& options) {
  StepProgram program;
  SimulatedPlan plan;
  plan.estimate = estimate_strategy(r, model, framework, profile, strategy, program);
  const StepColumns columns =
      make_columns(r, strategy, framework, profile, resolve_numerics(r.recipe, framework, strategy.engine));
  plan.simulation = simulate({.request = r,
                              .program = program,
                              .columns = columns,
                              .profile = profile,
                              .comm = make_step_comm(r, strategy, framework, profile)},
                             options);
  const Seconds step = plan.simulation.step_time();
  const FlopsPerSec peak = total_peak(columns);
  const double num_gpus = double(plan.estimate.num_gpus_used);
  const RunFigures figures = job_metrics(r, model, strategy, step, peak);
  plan.tokens_per_second = figures.tokens_per_second;
  plan.tokens_per_second_per_gpu = figures.tokens_per_second / num_gpus;
  plan.mfu = figures.mfu;
  plan.hfu = plan.simulation.executed_flops * num_gpus / (step.value * peak.value);
  plan.steps_per_epoch = figures.steps_per_epoch;
  plan.epoch = figures.epoch, plan.total = figures.total;
  plan.cost_usd = figures.cost_usd;
  return plan;
}

}  // namespace gpuplan
