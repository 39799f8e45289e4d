// Which runs teach the next estimate.
#include "run/run_report.h"

#include <memory>

#include <doctest/doctest.h>

using namespace gpuplan;

TEST_CASE(
    "run report: a run teaches what it measured; too few steps, steps of a toy, or a profile without a calibration "
    "teach nothing") {
  Profile profile;
  profile.file = "cpu.yaml";
  profile.measured = std::make_shared<Measured>();
  RunReport report{.predicted = {}, .measured = {}};
  report.timed_steps = 10;
  report.time = {{"step", 0.09, 0.1}};
  report.memory = {{"tensors", 1e6, 1e6}, {"process", 3e6, 2e6}};
  const auto record = run_record(report, profile, "2026-11-23");
  REQUIRE(record);
  CHECK(record->predicted.step == 0.09);
  CHECK(record->measured.step == 0.1);
  CHECK(record->measured.outside_tensors == Bytes{1'000'000});

  RunReport other = report;
  other.timed_steps = 2;
  CHECK_FALSE(run_record(other, profile, "2026-11-23"));
  other = report;
  other.timed_steps = 3;
  CHECK(run_record(other, profile, "2026-11-23"));
  other.time = {{"step", 0.003, 0.005}};
  CHECK(run_record(other, profile, "2026-11-23"));
  other.time = {{"step", 0.003, 0.0049}};
  CHECK_FALSE(run_record(other, profile, "2026-11-23"));
  profile.measured = nullptr;
  CHECK_FALSE(run_record(report, profile, "2026-11-23"));
}
