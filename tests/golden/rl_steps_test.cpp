// Published steps and phases of methods that generate against their predictions: data/validation/rl_steps.jsonl.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/files.h"
#include "cli/phase_points.h"

using namespace gpuplan;

namespace rl_steps {
namespace {

const std::vector<PhasePoint>& points() {
  static const std::vector<PhasePoint> judged =
      judge_phase_points((data_dir() / "validation" / "rl_steps.jsonl").string()).value();
  return judged;
}

/// |ln(predicted / measured)| of a figure over the points that count and whose name has `word` in it, smallest first.
std::vector<double> errors_of(const std::string& name, const std::string& word = "") {
  std::vector<double> errors;
  for (const PhasePoint& p : points())
    for (const PhaseFigure& f : p.figures)
      if (p.counts && f.name == name && p.id.find(word) != std::string::npos) errors.push_back(std::abs(f.log_error()));
  std::ranges::sort(errors);
  return errors;
}

double median_of(const std::string& name, const std::string& word = "") {
  const std::vector<double> errors = errors_of(name, word);
  REQUIRE_FALSE(errors.empty());
  return errors[errors.size() / 2];
}

}  // namespace

TEST_CASE("published steps of methods that generate: every point is understood") {
  CHECK(points().size() > 60);
  for (const PhasePoint& p : points()) {
    CAPTURE(p.id);
    CHECK(p.refused == "");
    CHECK_FALSE(p.source.empty());
  }
}

TEST_CASE("memory of the training phase is within 6 % in the median, adapters too") {
  CHECK(median_of("reserved_gib") <= 0.06);
  CHECK(median_of("reserved_gib", "-rl-16-") <= 0.06);
}

TEST_CASE("time of the training phase is within a log error of 0.12 in the median at 65,536 tokens, 0.25 at 16,384") {
  CHECK(errors_of("train_seconds", "-65536-").size() == 15);
  CHECK(median_of("train_seconds", "-65536-") <= 0.12);
  CHECK(median_of("train_seconds", "-16384-") <= 0.25);
}

TEST_CASE("rows that were kept back, on another card: memory within 6 %, time within a log error of 0.12") {
  CHECK(errors_of("train_seconds", "8xh200").size() == 7);
  CHECK(median_of("reserved_gib", "8xh200") <= 0.06);
  CHECK(median_of("train_seconds", "8xh200") <= 0.12);
}

TEST_CASE("generation is within a log error of 0.20 in the median, and whole steps within 0.18") {
  CHECK(median_of("generation_seconds") <= 0.20);
  CHECK(median_of("step_seconds") <= 0.18);
  CHECK(errors_of("step_seconds").back() <= 0.5);
}

TEST_CASE("generation of one model on 8, 16 and 32 GPUs is within a quarter each: the tail does not shrink") {
  for (const PhasePoint& p : points()) {
    const bool is_of_row = p.id == "isee-dapo7b-16" || p.id == "isee-dapo7b-6" || p.id == "isee-dapo7b-18";
    if (!is_of_row) continue;
    CAPTURE(p.id);
    CHECK(std::abs(std::log(p.figures.front().predicted / p.figures.front().measured)) < 0.25);
  }
}

TEST_CASE("runs that ran are not called no, and those that ran out of memory are not called yes") {
  for (const PhasePoint& p : points()) {
    CAPTURE(p.id);
    if (!p.fit || p.outcome.empty()) continue;
    if (p.outcome == "oom")
      CHECK(*p.fit != Fit::Yes);
    else
      CHECK(*p.fit != Fit::No);
  }
}

}  // namespace rl_steps
