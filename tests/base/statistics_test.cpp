#include "base/statistics.h"

#include <cmath>

#include <doctest/doctest.h>

using namespace gpuplan;

TEST_CASE("a quantile lies between its neighbours; the median of an even number is the mean of the middle two") {
  CHECK(quantile({4, 1, 3, 2}, 0) == 1);
  CHECK(quantile({4, 1, 3, 2}, 1) == 4);
  CHECK(quantile({10, 20}, 0.25) == 12.5);
  CHECK(median({4, 1, 3, 2}) == 2.5);
  CHECK(median({5, 1, 3}) == 3);
  CHECK(median({}) == 0);
}

TEST_CASE("the interval of a median leaves out what 95 % allow; few values give their range") {
  // 12 values: P(Binomial(12, 1/2) < 3) = 79 / 4096 = 1.9 %, below 4: 7.3 %, so the third from either end
  const MedianInterval of = median_interval({12, 1, 11, 2, 10, 3, 9, 4, 8, 5, 7, 6});
  CHECK(of.median == 6.5);
  CHECK(of.low == 3);
  CHECK(of.high == 10);
  const MedianInterval few = median_interval({3, 1, 2});
  CHECK(few.low == 1);
  CHECK(few.high == 3);
}

TEST_CASE("one outlier does not move the robust deviation") {
  CHECK(robust_deviation(std::vector{1.0, -1.0, 1.0, -1.0, 1000.0}) == doctest::Approx(1.4826));
}

TEST_CASE("a weighted quantile is the first value at which the share of the weight is reached") {
  const std::vector<double> values{3, 1, 2}, alike{1, 1, 1}, uneven{0.1, 0.8, 0.1};
  CHECK(weighted_quantile(values, alike, 0.5) == 2);  // 1, 2 hold 2/3
  CHECK(weighted_quantile(values, alike, 1.0 / 3) == 1);
  CHECK(weighted_quantile(values, alike, 0.9) == 3);
  CHECK(weighted_quantile(values, uneven, 0.5) == 1);  // 1 alone holds 0.8
  CHECK(weighted_quantile(values, alike, 0) == 1);
  CHECK(std::isnan(weighted_quantile({}, {}, 0.5)));
}
