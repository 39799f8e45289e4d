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

/// |ln(predicted / measured)| of a figure over the points that count, smallest first.
std::vector<double> errors_of(const std::string& name) {
  std::vector<double> errors;
  for (const PhasePoint& p : points())
    for (const PhaseFigure& f : p.figures)
      if (p.counts && f.name == name) errors.push_back(std::abs(f.log_error()));
  std::ranges::sort(errors);
  return errors;
}

double median_of(const std::string& name) {
  const std::vector<double> errors = errors_of(name);
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
