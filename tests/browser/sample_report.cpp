// Writes reports for the browser test: sample_report <folder>.
#include <filesystem>
#include <iostream>

#include "base/files.h"
#include "browser/plan_fixture.h"
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
  write_file_atomically(folder / "plan.html", plan_report(testing::small_plan("llama")));
  write_file_atomically(folder / "hostile_plan.html",
                        plan_report(testing::small_plan("</script><script>document.title='stolen'</script>\"'&<b>")));
  EstimateAnswer estimated{.request = test::asked("llama3-8b", "4xA6000"), .result = {}, .explanation = {}, .rows = {}};
  estimated.result = estimate(estimated.request);
  estimated.shown = strategy_in_focus(estimated.result);
  write_file_atomically(folder / "estimate.html", estimate_report(estimated, "gpuplan estimate --model llama3-8b"));
  return 0;
}
