// Writes reports for the browser test: sample_report <folder>.
#include <filesystem>
#include <iostream>

#include "base/files.h"
#include "browser/plan_fixture.h"
#include "diagnose/predicted_parts.h"
#include "golden/simulation_fixture.h"
#include "planner/asked.h"
#include "report/html/reports.h"

int main(int argc, char** argv) {
  using namespace gpuplan;
  if (argc != 2) {
    std::cerr << "usage: sample_report <folder>\n";
    return 2;
  }
  const std::filesystem::path folder(argv[1]);
  write_file_atomically(folder / "small.html", simulation_report(testing::small_simulation()));
  write_file_atomically(folder / "hostile.html", simulation_report(testing::hostile_simulation()));
  write_file_atomically(folder / "large.html", simulation_report(testing::large_simulation(200'000)));
  SimulationAnswer of_phases = testing::small_simulation();
  of_phases.plan.estimate.tiers.usable = Bytes{100};
  of_phases.plan.estimate.phases = {
      {.name = "training", .kind = PhaseKind::Training, .tensors = Bytes{80}, .time = {.step = Seconds{1}}},
      {.name = "answers", .kind = PhaseKind::Generation, .tensors = Bytes{50}, .time = {.step = Seconds{3}}}};
  place_in_step(of_phases.plan.estimate.phases);
  write_file_atomically(folder / "phases.html", simulation_report(of_phases));
  write_file_atomically(folder / "plan.html", plan_report(testing::small_plan("llama")));
  write_file_atomically(folder / "hostile_plan.html",
                        plan_report(testing::small_plan("</script><script>document.title='stolen'</script>\"'&<b>")));
  EstimateAnswer estimated{.request = test::asked("llama3-8b", "4xA6000"), .result = {}, .explanation = {}, .rows = {}};
  estimated.result = estimate(estimated.request);
  estimated.shown = strategy_in_focus(estimated.result);
  write_file_atomically(folder / "estimate.html", estimate_report(estimated, "gpuplan estimate --model llama3-8b"));

  const Job job(estimated.request, make_strategy("fsdp", estimated.request.cluster, {}));
  MeasuredRun run{.step = {}, .tokens_per_second = {}, .parts = predicted_parts(job), .peak = {}};
  run.parts->step = 2 * run.parts->step;  // the rest is idle
  run.parts->idle = run.parts->idle + 0.5 * run.parts->step;
  DiagnosisAnswer diagnosed;
  diagnosed.diagnosis = diagnose({estimated.request, estimated.result.profile}, "fsdp", run);
  diagnosed.notes = {"llama3-8b is <b>meta-llama/Meta-Llama-3-8B</b>"};
  write_file_atomically(folder / "diagnosis.html", diagnosis_report(diagnosed));
  return 0;
}
