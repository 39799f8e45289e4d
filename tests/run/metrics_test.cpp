#include "run/metrics.h"

#include <cmath>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "run/files/error_text.h"
#include "run/files/failing_disk.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::check_mentions;
using test::error_text;

namespace {

StepMetrics at(std::int64_t step) {
  return {.step = step,
          .loss = 2.5,
          .grad_norm = 1,
          .lr = 1e-4,
          .tokens_per_second = 100,
          .duration = {0.5},
          .memory = {1024}};
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& file) {
  std::vector<std::int64_t> steps;
  for (const std::string& line : split(read_file(file), '\n'))
    if (!line.empty()) steps.push_back(nlohmann::json::parse(line).at("step").get<std::int64_t>());
  return steps;
}

}  // namespace

TEST_CASE("metrics: a line per step, with base units in the keys, there at once") {
  const test::ScratchFolder scratch;
  const auto file = scratch.path() / "m.jsonl";
  MetricsFile metrics(file, 1);
  metrics.add(at(1));
  CHECK(
      read_file(file) ==
      R"({"step":1,"loss":2.5,"grad_norm":1.0,"lr":0.0001,"tokens_per_second":100.0,"step_seconds":0.5,"memory_bytes":1024})"
      "\n");
  StepMetrics diverged = at(2);
  diverged.loss = std::nan("");
  metrics.add(diverged);
  check_mentions(read_file(file), R"("step":2,"loss":null)");
}

TEST_CASE("metrics: a resumed run writes each step once, also when the last line was cut off") {
  const test::ScratchFolder scratch;
  const auto file = scratch.path() / "m.jsonl";
  for (const std::int64_t first : {1, 3, 5, 1}) {  // resumed after steps 2 and 4, then anew
    MetricsFile metrics(file, first);
    for (std::int64_t step = first; step < first + 4; ++step) metrics.add(at(step));
    std::vector<std::int64_t> expected;
    for (std::int64_t step = 1; step < first + 4; ++step) expected.push_back(step);
    CHECK(steps_in(file) == expected);
    std::ofstream(file, std::ios::app) << R"({"step":99,"lo)";
  }
  MetricsFile again(file, 5);
  CHECK(steps_in(file) == std::vector<std::int64_t>{1, 2, 3, 4});
}

TEST_CASE("metrics: zeros that a power loss left where lines were not synced are taken out") {
  const test::ScratchFolder scratch;
  const auto file = scratch.path() / "m.jsonl";
  { MetricsFile(file, 1).add(at(1)); }
  const std::string line = read_file(file), zeros(20, '\0');
  for (const std::string& lost : {zeros, zeros + "\n", zeros + "ss\":2.5}\n", zeros + line}) {
    for (const std::string& before : {std::string(), line}) {
      scratch.write("m.jsonl", before + lost);
      { MetricsFile(file, 2).add(at(2)); }
      CHECK(steps_in(file) == (before.empty() ? std::vector<std::int64_t>{2} : std::vector<std::int64_t>{1, 2}));
    }
  }
  const std::string tokens = zeros + "ab\n" + zeros + "cd\n";  // another program's
  scratch.write("m.jsonl", tokens);
  CHECK_THROWS_AS(MetricsFile(file, 1), InputError);
  CHECK(read_file(file) == tokens);
}

TEST_CASE("metrics: a file of something else is left alone") {
  const test::ScratchFolder scratch;
  for (const char* content : {"notes\n", "{\"loss\": 1}\n", "notes without an end"}) {
    const auto file = scratch.write("m.jsonl", content);
    check_mentions(error_text<InputError>([&] { MetricsFile metrics(file, 1); }), "left alone");
    CHECK(read_file(file) == content);
  }
}

TEST_CASE("metrics: a full disk and a missing folder are told") {
  const test::ScratchFolder scratch;
  check_mentions(error_text<EnvError>([&] { MetricsFile metrics(scratch.path() / "no/m.jsonl", 1); }),
                 "m.jsonl cannot be opened: No such file");
  MetricsFile metrics(scratch.path() / "m.jsonl", 1);
  std::string error;
  {
    const test::FailingDisk disk(0);
    error = error_text<EnvError>([&] { metrics.add(at(1)); });
  }
  check_mentions(error, "m.jsonl: writing failed: File too large");
}

TEST_CASE("metrics: a file is one run's, also where it is replaced on --resume or named by a link") {
  const test::ScratchFolder scratch;
  const auto file = scratch.path() / "m.jsonl", link = scratch.path() / "link.jsonl";
  std::filesystem::create_symlink("m.jsonl", link);
  for (const std::int64_t first : {1, 2}) {  // the second takes line 2 out, and so makes a new file
    MetricsFile metrics(file, first);
    metrics.add(at(first));
    for (const auto& name : {file, link})
      check_mentions(error_text<EnvError>([&] { MetricsFile other(name, 1); }), "another run writes its metrics there");
    metrics.add(at(first + 1));
  }
  CHECK(steps_in(link) == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("metrics: a file that is renamed, removed or replaced is noticed at the next line") {
  const test::ScratchFolder scratch;
  const auto file = scratch.path() / "m.jsonl";
  for (const char* what : {"renamed", "removed", "replaced"}) {
    CAPTURE(what);
    std::filesystem::remove(file);
    MetricsFile metrics(file, 1);
    metrics.add(at(1));
    if (std::string(what) == "renamed")
      std::filesystem::rename(file, scratch.path() / "other.jsonl");
    else
      std::filesystem::remove(file);
    if (std::string(what) == "replaced") scratch.write("m.jsonl", "");
    check_mentions(error_text<EnvError>([&] { metrics.add(at(2)); }), "m.jsonl: was renamed or removed");
  }
}
