#include "fit/correction.h"

#include <cmath>
#include <random>

#include <doctest/doctest.h>

#include "fit/quality.h"

using namespace gpuplan;

namespace {

/// Messages at every half power of two from 1 KiB.
std::vector<CorrectionSizes> half_powers(std::int64_t count) {
  std::vector<CorrectionSizes> sizes;
  for (std::int64_t i = 0; i < count; ++i)
    sizes.push_back({(std::int64_t(1024) << i / 2) * (i % 2 ? 3 : 2) / 2, 1, 1, 1});
  return sizes;
}

/// What a library does that no form follows: a bump of 40 % about 128 KiB.
double bump(const CorrectionSizes& sizes) {
  return 0.4 * std::exp(-std::pow(std::log2(double(sizes[0]) / 131072), 2) / 8);
}

std::vector<double> errors_of(const std::vector<CorrectionSizes>& sizes, double (*left_over)(const CorrectionSizes&)) {
  std::vector<double> errors;  // the form knows nothing of it
  for (const CorrectionSizes& size : sizes) errors.push_back(-left_over(size));
  return errors;
}

}  // namespace

TEST_CASE("what a form misses is found between the points it was measured at") {
  const auto sizes = half_powers(32);
  const LocalCorrection correction = fit_correction(sizes, errors_of(sizes, bump), 0.1, all_points(sizes.size()), 0);
  REQUIRE_FALSE(correction.is_empty());
  for (const std::int64_t size : {40'000, 100'000, 150'000, 500'000})
    CHECK(correction.at({size, 1, 1, 1}) == doctest::Approx(bump({size, 1, 1, 1})).epsilon(0.1));
}

TEST_CASE("noise alone is no reason for a correction") {
  const auto sizes = half_powers(32);
  int num_corrections = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    std::vector<double> errors;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      errors.push_back(0.02 * (double(random()) / double(std::mt19937::max()) - 0.5));
    num_corrections += !fit_correction(sizes, errors, 0.01, all_points(sizes.size()), 0).is_empty();
  }
  CHECK(num_corrections <= 8);
}

TEST_CASE("a wrong sample corrects nothing, and neither do too few") {
  const auto sizes = half_powers(32);
  std::vector<double> errors(sizes.size(), 0.0);
  errors[10] = -1.6;  // five times too slow
  CHECK(std::abs(fit_correction(sizes, errors, 0.02, all_points(sizes.size()), 0).at(sizes[10])) < 0.01);
  CHECK(fit_correction(half_powers(5), errors_of(half_powers(5), bump), 0.1, all_points(5), 0).is_empty());
}

TEST_CASE("points that are not named take no part") {
  const auto sizes = half_powers(32);
  std::vector<double> errors = errors_of(sizes, bump);
  const auto with =
      fit_correction(sizes, errors, 0.1, std::vector<std::size_t>{8, 9, 10, 11, 12, 13, 14, 15, 16, 17}, 0);
  for (std::size_t i = 18; i < errors.size(); ++i) errors[i] = 0.3;
  const auto without =
      fit_correction(sizes, errors, 0.1, std::vector<std::size_t>{8, 9, 10, 11, 12, 13, 14, 15, 16, 17}, 0);
  CHECK(with.at(sizes[12]) == without.at(sizes[12]));
  CHECK(with.points().size() == 10);
}
