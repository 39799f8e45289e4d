#include "run/run_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/date.h"
#include "base/error.h"
#include "base/narrow.h"
#include "base/statistics.h"
#include "models/recipe_names.h"
#include "planner/memory.h"
#include "planner/phases.h"
#include "run/address_plan.h"
#include "run/step_trace.h"
#include "sim/activity.h"

namespace gpuplan {
namespace {

constexpr std::size_t kWarmUp = 2;  // steps that are not timed, where there are more

const RankClass& class_of(const NativeJob& job, const RankPlace& place) {
  return job.program().classes[job.program().class_of(place.rank)];
}

/// The last step's times as spans, as the simulator has them.
Simulation measured_simulation(const RunFacts& f) {
  const StepProgram& all = f.job.program();
  const RankProgram& p = all.programs[class_of(f.job, f.place).program];
  Simulation out;
  SimulatedRank& rank = out.ranks.emplace_back();
  rank.rank = f.place.rank;
  rank.name = "rank 0, measured";
  rank.stands_for = 1;
  for (const TaskTime& t : f.outcome.timeline) {
    const Instruction& i = p.instructions[t.instruction];
    Span& span = out.spans.emplace_back();
    span.begin = to_sim_time(t.begin), span.end = to_sim_time(t.end);
    span.instruction = t.instruction;
    span.number = narrow<std::uint32_t>(out.spans.size());
    span.stream = i.stream;
    span.activity = activity_of(i);
    span.unit = i.unit;
    span.micro_batch = t.micro_batch;
    span.bytes = i.op == OpCode::Call ? Bytes{} : i.work;
    span.active = span.end - span.begin;
    rank.busy[std::size_t(i.stream)] = rank.busy[std::size_t(i.stream)] + span.active;
    out.step = std::max(out.step, span.end);
  }
  std::stable_sort(out.spans.begin(), out.spans.end(), [](const Span& a, const Span& b) { return a.end < b.end; });
  return out;
}

Seconds sum_of(const Simulation& s, std::span<const Activity> activities) {
  Seconds sum;
  for (const Span& span : s.spans)
    if (span.rank == 0 && std::find(activities.begin(), activities.end(), span.activity) != activities.end())
      sum += (span.end - span.begin).seconds();
  return sum;
}

struct TimePart {
  const char* name;
  std::vector<Activity> activities;
};

const std::array kTimeParts{TimePart{"forward", {Activity::Forward}},
                            TimePart{"head_and_loss", {Activity::Head}},
                            TimePart{"recompute", {Activity::Recompute}},
                            TimePart{"backward", {Activity::Backward}},
                            TimePart{"optimizer", {Activity::Optimizer, Activity::HostOptimizer}},
                            TimePart{"host_copies", {Activity::CopyIn, Activity::CopyOut}},
                            TimePart{"communication",
                                     {Activity::AllGather, Activity::ReduceScatter, Activity::AllReduce,
                                      Activity::AllToAll, Activity::SendRecv}}};

std::vector<PredictedMeasured> compare_time(const Simulation& predicted, const Simulation& measured, Seconds step) {
  std::vector<PredictedMeasured> out;
  for (const TimePart& part : kTimeParts) {
    const PredictedMeasured c{part.name, sum_of(predicted, part.activities).value,
                              sum_of(measured, part.activities).value};
    if (c.predicted > 0 || c.measured > 0) out.push_back(c);
  }
  out.push_back({"step", predicted.step_time().value, step.value});
  return out;
}

/// Measured memory of this rank beside that of its class: tensors by category at the peak, then what is kept all the
/// time, all tensors, and the process.
std::vector<PredictedMeasured> compare_memory(const RunFacts& f) {
  const RankClass& own = class_of(f.job, f.place);
  ClassMemory memory = class_memory(f.job, f.job.program(), own);
  CategoryBytes predicted = replay_detailed(f.job.program(), own, f.job.model.num_layers()).by_category;
  if (f.job.compares_answers()) {  // with the models and passes beside the one that is trained
    const std::size_t index = f.job.program().class_of(f.place.rank);
    const Peak peak = replay_phases(f.job, f.job.program())[index];
    memory.tiers.process += peak.step - memory.peak.step;
    memory.peak = peak;
    predicted = detailed_phases(f.job, f.job.program(), index, peak).by_category;
  }
  std::vector<PredictedMeasured> out;
  const auto add = [&](std::string name, Bytes expected, Bytes measured) {
    out.push_back({std::move(name), double(expected.count), double(measured.count)});
  };
  for (std::size_t k = 0; k < predicted.size(); ++k)
    if (predicted[k].count > 0 || f.outcome.at_peak[k].count > 0)
      add(std::string(to_string(Category(k))), predicted[k], f.outcome.at_peak[k]);
  add("persistent", memory.peak.resident, f.outcome.persistent);
  add("tensors", memory.peak.step, f.outcome.peak);
  if (memory.peak.host.count > 0) add("host", memory.peak.host, f.outcome.host);
  add("process", memory.tiers.process, f.outcome.process);
  return out;
}

Seconds median_step(const TrainingOutcome& outcome, std::int64_t& num_timed) {
  std::vector<double> times;
  const std::size_t first = outcome.steps.size() > 2 * kWarmUp ? kWarmUp : 0;
  for (std::size_t i = first; i < outcome.steps.size(); ++i) times.push_back(outcome.steps[i].duration.value);
  num_timed = std::int64_t(times.size());
  return {median(times)};
}

}  // namespace

std::vector<std::string> memory_row_names() {
  std::vector<std::string> names;
  for (int c = 0; c < kNumCategories; ++c) names.emplace_back(to_string(Category(c)));
  names.insert(names.end(), {"persistent", "tensors", "host", "process"});
  return names;
}

std::vector<std::string> time_row_names() {
  std::vector<std::string> names;
  for (const TimePart& part : kTimeParts) names.emplace_back(part.name);
  names.emplace_back("step");
  return names;
}

RunReport make_run_report(const RunFacts& f) {
  RunReport report{.estimate = f.chosen,
                   .predicted = {},
                   .measured = measured_simulation(f),
                   .outcome = f.outcome,
                   .request = f.job.request,
                   .strategy = f.job.strategy,
                   .num_layers = f.job.model.num_layers(),
                   .memory = compare_memory(f),
                   .time = {},
                   .timed_steps = 0};
  report.predicted = simulate_plan(f.job, {}).simulation;
  const Seconds step = median_step(f.outcome, report.timed_steps);
  report.time = compare_time(report.predicted, report.measured, step);
  const double tokens =
      double(f.job.strategy.mesh.batch_replicas() * f.job.recipe().grad_accum * f.job.recipe().tokens());
  if (step.value > 0) report.tokens_per_second = tokens / step.value;
  return report;
}

namespace {

RunRecord::Figures figures(const RunReport& r, double PredictedMeasured::*value) {
  const auto row = [&](const std::vector<PredictedMeasured>& rows, std::string_view name) {
    const auto found =
        std::find_if(rows.begin(), rows.end(), [&](const PredictedMeasured& one) { return one.name == name; });
    return found == rows.end() ? 0 : (*found).*value;
  };
  return {.step = row(r.time, "step"),
          .outside_tensors = Bytes{std::llround(row(r.memory, "process") - row(r.memory, "tensors"))}};
}

}  // namespace

std::optional<RunRecord> run_record(const RunReport& r, const Profile& profile, const std::string& date) {
  constexpr std::int64_t kFewest = 3;  // timed steps
  constexpr Seconds kShortest{
      5e-3};  // toys of 1 to 3 ms took half of what was predicted, and would have halved what is predicted for 90 ms
  const RunRecord::Figures measured = figures(r, &PredictedMeasured::measured);
  if (profile.file.empty() || !profile.measured || r.timed_steps < kFewest || measured.step < kShortest.value)
    return std::nullopt;
  return RunRecord{.profile = profile.sha256,
                   .date = date,
                   .model = r.request.model.name,
                   .strategy = r.strategy.name,
                   .method = std::string(to_string(r.request.recipe.method)),
                   .num_ranks = r.strategy.mesh.world(),
                   .num_steps = r.timed_steps,
                   .predicted = figures(r, &PredictedMeasured::predicted),
                   .measured = measured,
                   .applied = correction_of(profile, r.strategy.mesh.world(), "native")};
}

std::string keep_run(const RunReport& report, const Profile& profile) {
  const auto record = run_record(report, profile, today());
  if (!record) return {};
  try {
    add_run(profile.file, *record);
    return fmt::format("kept in {}: it corrects the next estimate on as many ranks",
                       run_history_file(profile.file).string());
  } catch (const EnvError& error) { return fmt::format("not kept for the next estimate: {}", error.what()); }
}

}  // namespace gpuplan
