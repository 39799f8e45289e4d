#include "cluster/profile/run_history.h"

#include <cmath>

#include <doctest/doctest.h>

#include "base/files.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

/// A run that took `times` what was predicted with `applied` in it, and held `outside` bytes more.
RunRecord run(double times, std::int64_t outside = 0, RunCorrection applied = {}) {
  return {.profile = "abc",
          .date = "2026-11-22",
          .model = "llama",
          .strategy = "ddp",
          .method = "lora",
          .num_ranks = 2,
          .num_steps = 10,
          .predicted = {.step = 2, .outside_tensors = Bytes{1000}},
          .measured = {.step = 2 * times, .outside_tensors = Bytes{1000 + outside}},
          .applied = applied};
}

}  // namespace

TEST_CASE("run history: what is added is read back, for the profile it was predicted with alone") {
  const test::ScratchFolder scratch;
  const auto profile = scratch.path() / "local.yaml";
  CHECK(read_runs(profile, "abc").empty());
  add_run(profile, run(1.1, 50));
  RunRecord other = run(3);
  other.profile = "of an older calibration";
  add_run(profile, other);
  add_run(profile, run(1.2));
  std::string text = read_file(run_history_file(profile));
  write_file_atomically(run_history_file(profile),
                        text + "{\"profile\": \"abc\"}\nnonsense\n" + text.substr(0, 40));  // cut off
  const auto runs = read_runs(profile, "abc");
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].measured.step == doctest::Approx(2.2));
  CHECK(runs[0].measured.outside_tensors == Bytes{1050});
  CHECK(runs[0].strategy == "ddp");
  CHECK(runs[0].num_ranks == 2);
  CHECK(runs[1].measured.step == doctest::Approx(2.4));
  add_run(profile, run(1.3));  // half a line does not swallow the next one
  REQUIRE(read_runs(profile, "abc").size() == 3);
  CHECK(read_runs(profile, "abc")[2].measured.step == doctest::Approx(2.6));
}

TEST_CASE(
    "run history: one run corrects half of what it was off, many correct nearly all, other numbers of ranks nothing") {
  CHECK(correction_for({}, 2).num_runs == 0);
  const RunCorrection one = correction_for({run(1.21, 100)}, 2);
  CHECK(one.time == doctest::Approx(1.1));
  CHECK(one.outside_tensors == Bytes{50});
  CHECK(correction_for(std::vector<RunRecord>(19, run(1.2)), 2).time == doctest::Approx(std::pow(1.2, 0.95)));
  CHECK(correction_for({run(1.21)}, 1).time == 1);
  CHECK(correction_for({run(1.21)}, 1).num_runs == 0);
}

TEST_CASE("run history: a line whose times make no sense teaches nothing") {
  const test::ScratchFolder scratch;
  const auto profile = scratch.path() / "local.yaml";
  add_run(profile, run(1.1));
  const std::string good = read_file(run_history_file(profile));
  REQUIRE(read_runs(profile, "abc").size() == 1);
  for (const char* wrong : {"-1", "0", "1e300", "\"fast\"", "null"}) {
    std::string line = good;
    const std::string key = "\"time\":1.0";
    REQUIRE(line.find(key) != std::string::npos);
    line.replace(line.find(key), key.size(), std::string("\"time\":") + wrong);
    write_file_atomically(run_history_file(profile), good + line);
    CAPTURE(std::string(wrong));
    CHECK(read_runs(profile, "abc").size() == 1);
  }
}

TEST_CASE("run history: an odd run among many changes little, and nothing is corrected by more than a factor of 2") {
  std::vector<RunRecord> runs(8, run(1.1));
  runs.insert(runs.begin() + 4, run(7));  // something else ran beside it
  CHECK(correction_for(runs, 2).time == doctest::Approx(std::pow(1.1, 0.9)));
  CHECK(correction_for(std::vector<RunRecord>(20, run(50)), 2).time == doctest::Approx(2));
  CHECK(correction_for(std::vector<RunRecord>(20, run(0.01)), 2).time == doctest::Approx(0.5));
}

TEST_CASE("run history: the latest 25 runs count, and no earlier one") {
  std::vector<RunRecord> runs(100, run(1.8));
  runs.insert(runs.end(), 25, run(1.2));
  const RunCorrection now = correction_for(runs, 2), fresh = correction_for(std::vector<RunRecord>(25, run(1.2)), 2);
  CHECK(now.time == fresh.time);
  std::vector<RunRecord> half(12, run(1.8));  // of 25
  half.insert(half.end(), 13, run(1.2));
  CHECK(correction_for(half, 2).time == fresh.time);
  half.insert(half.begin(), 50, run(1.8));
  CHECK(correction_for(half, 2).time == fresh.time);
}

TEST_CASE("run history: corrected predictions settle at the truth instead of swinging around it") {
  // The machine takes 1.3 times what the profile alone says, and holds 600 bytes more.
  std::vector<RunRecord> runs;
  for (int i = 0; i < 30; ++i) {
    const RunCorrection applied = correction_for(runs, 2);
    RunRecord next = run(1.3 / applied.time, 600 - applied.outside_tensors.count, applied);
    runs.push_back(next);
  }
  CHECK(correction_for(runs, 2).time == doctest::Approx(1.3).epsilon(0.015));
  CHECK(std::abs(correction_for(runs, 2).outside_tensors.count - 600) < 30);
}

TEST_CASE("each framework learns from its own runs; a line without one is of the native executor") {
  RunRecord other = run(1.21);
  other.framework = "trl";
  CHECK(correction_for({other}, 2).num_runs == 0);
  CHECK(correction_for({other}, 2, "trl").time == doctest::Approx(1.1));
  CHECK(correction_for({run(1.21), other}, 2, "hf-trainer").num_runs == 0);
  const test::ScratchFolder scratch;
  const auto profile = scratch.path() / "local.yaml";
  other.profile = "p";
  add_run(profile, other);
  REQUIRE(read_runs(profile, "p").size() == 1);
  CHECK(read_runs(profile, "p").front().framework == "trl");
  std::string line = read_file(run_history_file(profile));
  const std::string key = "\"framework\":\"trl\",";
  REQUIRE(line.find(key) != std::string::npos);
  line.erase(line.find(key), key.size());
  write_file_atomically(run_history_file(profile), line);
  REQUIRE(read_runs(profile, "p").size() == 1);
  CHECK(read_runs(profile, "p").front().framework == "native");
}
