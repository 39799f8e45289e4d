// A strategy of a request, simulated: memory and program from the planner, time from the events.
#include "planner/job_metrics.h"
#include "sim/simulation.h"

namespace gpuplan {

SimulatedPlan simulate_plan(const Job& job, const SimOptions& options) {
  StepProgram program;
  SimulatedPlan plan;
  plan.estimate = estimate_strategy(job, program);
  const StepColumns columns = make_columns(job);
  plan.simulation =
      simulate({.job = job, .program = program, .columns = columns, .comm = make_step_comm(job)}, options);
  const Seconds step = plan.simulation.step_time();
  const FlopsPerSec peak = total_peak(columns);
  const double num_gpus = double(plan.estimate.num_gpus_used);
  const JobMetrics figures = job_metrics(job, step, peak);
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
