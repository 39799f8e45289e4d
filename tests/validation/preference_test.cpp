// Published runs of preference tuning and reward models against their predictions.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/files.h"
#include "validate/judge.h"
#include "validate/read_points.h"

using namespace gpuplan;

namespace preference_runs {
namespace {

struct JudgedRuns {
  std::vector<Point> points = read_points(data_dir() / "validation" / "preference.jsonl");
  std::vector<PointResult> results;
  JudgedRuns() {
    PointPlanner planner(AliasTable::read());
    results = judge(points, planner).results;
  }
};

const JudgedRuns& runs() {
  static const JudgedRuns judged;
  return judged;
}

}  // namespace

TEST_CASE("runs of preference tuning: what worked is not refused, and what ran out of memory is not called yes") {
  for (const PointResult& r : runs().results) {
    CAPTURE(r.point->id);
    REQUIRE_MESSAGE(r.fit.has_value(), r.reason);
    if (r.point->memory.ran_out)
      CHECK(*r.fit != Fit::Yes);
    else
      CHECK(*r.fit != Fit::No);
  }
}

TEST_CASE("runs of preference tuning that are fully stated are within 8 % in the median") {
  std::vector<double> errors;
  for (const PointResult& r : runs().results) {
    if (r.own) MESSAGE(r.point->id << ": " << r.own->predicted << " of " << r.own->measured << " GiB");
    if (r.own && r.point->skipped == "not meant for scoring")
      errors.push_back(std::abs(std::log(r.own->predicted / r.own->measured)));
  }
  REQUIRE_FALSE(errors.empty());
  std::sort(errors.begin(), errors.end());
  CHECK(errors[errors.size() / 2] <= 0.08);
}

}  // namespace preference_runs
