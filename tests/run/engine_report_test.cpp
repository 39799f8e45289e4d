// A run of another engine teaches the next estimate.
#include "run/engine_report.h"

#include <memory>

#include <doctest/doctest.h>

#include "run/native_fixture.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

EngineOutcome steps_of(std::int64_t count, double seconds) {
  EngineOutcome outcome;
  for (std::int64_t step = 1; step <= count; ++step)
    outcome.steps.push_back({.step = step, .loss = 1, .duration = Seconds{seconds}, .memory = {}});
  return outcome;
}

}  // namespace

TEST_CASE("engine report: a run that ended well is kept for its framework; a failed, short or quick one is not") {
  const test::ScratchFolder scratch;
  Profile profile;
  profile.file = scratch.path() / "local.yaml";
  profile.sha256 = "abc";
  profile.measured = std::make_shared<Measured>();
  const EstimateRequest request = test::request_of({});
  StrategyEstimate chosen;
  chosen.time.step = Seconds{0.02};
  const auto kept = [&](const EngineOutcome& outcome) {
    return keep_engine_run(make_engine_report(request, chosen, "torchrun", outcome), profile);
  };
  EngineOutcome failed = steps_of(5, 0.01);
  failed.code = 3;
  for (const EngineOutcome& outcome : {failed, steps_of(2, 0.01), steps_of(5, 0.004), EngineOutcome{}})
    CHECK(kept(outcome).empty());
  CHECK(read_runs(profile.file, "abc").empty());
  CHECK(kept(steps_of(5, 0.01)).starts_with("kept in " + run_history_file(profile.file).string()));
  const auto runs = read_runs(profile.file, "abc");
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].framework == request.recipe.framework->name);
  CHECK(runs[0].num_steps == 3);  // without the first two
  CHECK(runs[0].measured.step == doctest::Approx(0.01));
  CHECK(runs[0].predicted.step == doctest::Approx(0.02));
}
