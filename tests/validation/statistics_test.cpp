#include "validate/statistics.h"

#include <doctest/doctest.h>

using namespace gpuplan;

TEST_CASE("macro weights: sources alike, then groups, then points") {
  // two sources: 1/2 each; a has groups x (2 points) and y: 1/4 each, so x's points 1/8; b has one point
  const std::vector<PointPlace> places{{"a", "x"}, {"a", "x"}, {"a", "y"}, {"b", "z"}};
  const auto weights = macro_weights(places);
  CHECK(weights == std::vector<double>{0.125, 0.125, 0.25, 0.5});
}

TEST_CASE("the summary of errors, by hand") {
  // |errors| 0.1, 0.2, 0.3, 0.4 with weights 1/8, 1/8, 1/4, 1/2: half is reached at 0.3 (0.5), 0.9 at 0.4
  const std::vector<double> errors{0.1, -0.2, 0.3, -0.4};
  const std::vector<PointPlace> places{{"a", "x"}, {"a", "x"}, {"a", "y"}, {"b", "z"}};
  const ErrorSummary s = summarise(errors, places);
  CHECK(s.num_points == 4);
  CHECK(s.num_sources == 2);
  CHECK(s.median == 0.3);
  CHECK(s.p90 == 0.4);
  CHECK(s.median_signed == -0.4);  // -0.4 alone holds 1/2
  CHECK(s.pooled_median == 0.2);
  CHECK(s.pooled_p90 == 0.4);
  CHECK(s.pooled_median_signed == -0.2);
  CHECK(s.worst == -0.4);
  CHECK(s.worst_at == 3);
}
