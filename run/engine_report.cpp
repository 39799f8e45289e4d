#include "run/engine_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/date.h"
#include "base/error.h"
#include "base/statistics.h"
#include "models/recipe_names.h"

namespace gpuplan {
namespace {

constexpr std::size_t kFirstSteps = 2;  // that load kernels and connect ranks: not timed where there are more

std::vector<double> timed(const std::vector<StepMetrics>& steps) {
  std::vector<double> times;
  for (std::size_t i = steps.size() > 2 * kFirstSteps ? kFirstSteps : 0; i < steps.size(); ++i)
    if (steps[i].duration.value > 0) times.push_back(steps[i].duration.value);
  return times;
}

double measured_of(const std::vector<PredictedMeasured>& rows, std::string_view name,
                   double PredictedMeasured::*value) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& one) { return one.name == name; });
  return row == rows.end() ? 0 : (*row).*value;
}

}  // namespace

EngineReport make_engine_report(const EstimateRequest& request, const StrategyEstimate& chosen,
                                const std::string& engine, const EngineOutcome& outcome) {
  EngineReport report{.request = request, .strategy = chosen.strategy, .engine = engine, .outcome = outcome};
  const bool is_cpu = request.cluster.gpus.front().is_cpu;
  const Bytes process = is_cpu ? outcome.host_process : outcome.gpu_process;
  report.memory.push_back({"tensors", double(chosen.tiers.tensors.count), double(outcome.tensors.count)});
  report.memory.push_back({"process", double(chosen.tiers.process.count), double(process.count)});
  const std::vector<double> times = timed(outcome.steps);
  report.timed_steps = std::int64_t(times.size());
  const double step = times.empty() ? 0 : median(times);
  report.time.push_back({"step", chosen.time.step.value, step});
  const Recipe& recipe = request.recipe;
  const double tokens = double(chosen.strategy.mesh.batch_replicas() * recipe.grad_accum * recipe.tokens());
  if (step > 0) report.tokens_per_second = tokens / step;
  return report;
}

std::string keep_engine_run(const EngineReport& r, const Profile& profile) {
  constexpr std::int64_t kFewest = 3;  // timed steps
  constexpr double kShortest = 5e-3;   // s
  const double step = measured_of(r.time, "step", &PredictedMeasured::measured);
  if (profile.file.empty() || !profile.measured || r.timed_steps < kFewest || step < kShortest || r.outcome.code != 0)
    return {};
  const auto outside = [&](double PredictedMeasured::*value) {
    const double tensors = measured_of(r.memory, "tensors", value);
    // where the program does not say its tensors, they are what was predicted
    const double counted = tensors > 0 ? tensors : measured_of(r.memory, "tensors", &PredictedMeasured::predicted);
    return Bytes{std::llround(measured_of(r.memory, "process", value) - counted)};
  };
  // On CPUs the process also holds Python and its libraries, which are no part of what a plan of CPU ranks counts.
  const bool has_process =
      measured_of(r.memory, "process", &PredictedMeasured::measured) > 0 && !r.request.cluster.gpus.front().is_cpu;
  const Bytes predicted = outside(&PredictedMeasured::predicted);
  const std::int64_t ranks = r.strategy.mesh.world();
  const RunRecord record{
      .profile = profile.sha256,
      .date = today(),
      .model = r.request.model.name,
      .strategy = r.strategy.name,
      .method = std::string(to_string(r.request.recipe.method)),
      .framework = r.request.recipe.framework->name,
      .num_ranks = ranks,
      .num_steps = r.timed_steps,
      .predicted = {.step = r.time.front().predicted, .outside_tensors = predicted},
      .measured = {.step = step, .outside_tensors = has_process ? outside(&PredictedMeasured::measured) : predicted},
      .applied = correction_of(profile, ranks, r.request.recipe.framework->name)};
  try {
    add_run(profile.file, record);
    return fmt::format("kept in {}: it corrects the next estimate of {} on as many ranks",
                       run_history_file(profile.file).string(), record.framework);
  } catch (const EnvError& error) { return fmt::format("not kept for the next estimate: {}", error.what()); }
}

}  // namespace gpuplan
