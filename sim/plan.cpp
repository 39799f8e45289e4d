// A strategy of a request, simulated: memory and program from the planner, time from the events.
#include <algorithm>
#include <cmath>

#include "models/numerics.h"
#include "planner/limits.h"
#include "sim/simulation.h"
#include "sim/what_if.h"

namespace gpuplan {
namespace {

void fill_figures(SimulatedPlan& plan, const EstimateRequest& r, const TrainedModel& model, FlopsPerSec peak) {
  const StrategyEstimate& e = plan.estimate;
  const double step = std::max(1e-12, plan.simulation.step_time().value);
  plan.tokens_per_second = double(e.global_batch) * double(r.recipe.seq_len) / step;
  plan.tokens_per_second_per_gpu = plan.tokens_per_second / double(e.num_gpus_used);
  plan.mfu = model_flops(r, model, e.global_batch) / (step * peak.value);
  plan.hfu = plan.simulation.executed_flops * double(e.num_gpus_used) / (step * peak.value);
  plan.steps_per_epoch = e.steps_per_epoch;
  plan.epoch = double(e.steps_per_epoch) * plan.simulation.step_time();
  plan.total = r.dataset.epochs * plan.epoch;
  const auto price = r.price_per_gpu_hour ? r.price_per_gpu_hour : r.cluster.price_per_gpu_hour;
  if (price) plan.cost_usd = *price * double(e.num_gpus_used) * plan.total.value / 3600.0;
}

}  // namespace

SimulatedPlan simulate_plan(const EstimateRequest& r, const TrainedModel& model, const FrameworkConvention& framework,
                            const Profile& profile, const Strategy& strategy, const SimOptions& options) {
  StepProgram program;
  SimulatedPlan plan;
  plan.estimate = estimate_strategy(r, model, framework, profile, strategy, program);
  const Numerics numerics = resolve_numerics(r.recipe, framework, strategy.engine);
  const StepColumns columns = make_columns(r, strategy, framework, profile, numerics);
  const SimInput input{.request = r,
                       .program = program,
                       .columns = columns,
                       .comm = make_step_comm(r, strategy, framework, profile),
                       .strategy = strategy,
                       .num_layers = model.num_layers()};
  plan.simulation = simulate(input, options);
  fill_figures(plan, r, model, total_peak(columns));
  return plan;
}

}  // namespace gpuplan
