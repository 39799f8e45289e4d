#include "cluster/profile/local_correction.h"

#include <cmath>

#include <doctest/doctest.h>

#include "cluster/profile/collective_curve.h"
#include "cluster/profile/gemm_surface.h"

using namespace gpuplan;

TEST_CASE("a correction falls by 1/e per reach, in octaves of any size, and goes to nothing") {
  const LocalCorrection correction({.reach = 2}, {{{256, 1024, 64, 1}, 0.3}});
  CHECK(correction.at({256, 1024, 64, 1}) == doctest::Approx(0.3));
  CHECK(correction.at({1024, 1024, 64, 1}) == doctest::Approx(0.3 / std::exp(1.0)));  // two octaves in m
  CHECK(correction.at({512, 2048, 64, 1}) == doctest::Approx(0.3 / std::exp(1.0)));   // one in m, one in n
  CHECK(correction.at({1 << 30, 1 << 30, 1 << 30, 1}) < 1e-12);
  CHECK(LocalCorrection().at({1, 1, 1, 1}) == 0);
}

TEST_CASE("alignment sets sizes apart that are as good as equal") {
  const LocalCorrection blind({.reach = 1}, {{{1024, 1, 1, 1}, 1.0}}),
      seeing({.reach = 1, .alignment = 0.5}, {{{1024, 1, 1, 1}, 1.0}});
  CHECK(blind.at({1025, 1, 1, 1}) > 0.99);
  CHECK(seeing.at({1025, 1, 1, 1}) ==
        doctest::Approx(std::exp(-5.0)).epsilon(0.01));                  // 2^10 divides one, 2^0 the other
  CHECK(seeing.at({2048, 1, 1, 1}) == doctest::Approx(std::exp(-1.5)));  // an octave, and one power of two more
}

TEST_CASE("products and messages take what their correction says") {
  GemmSurface surface{.rate = {1e12}, .bandwidth = {1e12}, .num_units = 1};
  const Seconds form = surface.time({1024, 1024, 1024});
  surface.correction = LocalCorrection({.reach = 1}, {{{1024, 1024, 1024, 1}, std::log(1.25)}});
  CHECK(surface.time({1024, 1024, 1024}) / form == doctest::Approx(1.25));
  CollectiveCurve curve{.segments = {{.alpha = {1e-5}, .bandwidth = {1e9}}}};
  curve.correction = LocalCorrection({.reach = 1}, {{correction_sizes(Bytes{1'000'000}), std::log(0.5)}});
  CHECK(curve.time({1'000'000}).value == doctest::Approx(0.5 * (1e-5 + 1e-3)));
}
