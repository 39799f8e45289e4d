#include "cluster/profile/gemm_surface.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace gpuplan;

namespace {

/// Ten units of 64 x 64 tiles, no launch, no losses: 1 TFLOP/s, memory too fast to matter.
GemmSurface plain() {
  return {.type = GemmType::F32,
          .layout = GemmLayout::Forward,
          .rate = {1e12},
          .bandwidth = {1e18},
          .k_depth = {500},
          .tile_m = 64,
          .tile_n = 64,
          .num_units = 10};
}

}  // namespace

TEST_CASE("without losses a product takes its operations over the rate") {
  // 2 * 640 * 64 * 1024 / 1e12 = 83.886 us
  CHECK(plain().time({640, 64, 1024}).value == doctest::Approx(83.88608e-6));
  CHECK(plain().time({}).value == 0);
}

TEST_CASE("an eleventh tile on ten units costs a whole wave") {
  GemmSurface f = plain();
  f.wave_loss = {1};
  // 10 tiles: 1 wave; 11 tiles: 2 waves, the time of 20 tiles; one row more than 10 tiles is an eleventh tile
  const double ten = f.time({640, 64, 1024}).value;
  CHECK(ten == doctest::Approx(83.88608e-6));
  CHECK(f.time({704, 64, 1024}).value == doctest::Approx(2 * ten));
  CHECK(f.time({641, 64, 1024}).value == doctest::Approx(2 * ten));
  f.wave_loss = {0.5};
  CHECK(f.time({704, 64, 1024}).value == doctest::Approx(1.1 * ten * (1 + 0.5 * (2 / 1.1 - 1))));
}

TEST_CASE("idle units share a deep product") {
  GemmSurface f = plain();
  f.wave_loss = {1};
  // one tile on ten units: k = 4096 splits into 8 parts, k = 256 into none
  CHECK(f.time({64, 64, 4096}).value == doctest::Approx(2 * 64 * 64 * 4096 / 1e12 * 10 / 8));
  CHECK(f.time({64, 64, 256}).value == doctest::Approx(2 * 64 * 64 * 256 / 1e12 * 10));
}

TEST_CASE("thin products move bytes: the roofline's other side") {
  GemmSurface f = plain();
  f.bandwidth = {1e9};
  f.launch = {1e-6};
  // A 4096 x 8, B 8 x 8, C 4096 x 8 in fp32: 4 * (32768 + 64 + 32768) = 262400 B at 1 GB/s = 262.4 us; the operations
  // hide
  CHECK(f.time({4096, 8, 8}).value == doctest::Approx(263.4e-6));
  f.exposed = {1};
  CHECK(f.time({4096, 8, 8}).value == doctest::Approx(263.4e-6 + 2 * 4096 * 64 / 1e12));
}

TEST_CASE("misaligned rows and deep panels cost what their losses say") {
  GemmSurface f = plain();
  f.num_units = 1;
  f.tail_loss = {0.1};
  f.ragged_loss = {0.2};
  f.stride_loss = {0.3};
  const auto per_flop = [&](GemmShape s) { return f.time(s).value * 1e12 / (2.0 * double(s.m * s.n * s.k)); };
  CHECK(per_flop({64, 64, 96}) == doctest::Approx(1));
  CHECK(per_flop({64, 64, 100}) == doctest::Approx(1.1 * 1.2 * 1.2));  // k: rows of both A and B, 400 bytes
  CHECK(per_flop({64, 64, 512}) == doctest::Approx(1.3));              // rows of B 2048 bytes apart
  f.depth_loss = {1};
  CHECK(per_flop({64, 64, 8'000'016}) == doctest::Approx(1).epsilon(0.01));  // large products define the rate
  CHECK(per_flop({64, 64, 48}) == doctest::Approx((1 + 48.0 / 548) / 2));
}

TEST_CASE("every parameter of a surface is in its table once") {
  GemmSurface f;
  for (const GemmParameter& parameter : kGemmParameters) {
    CHECK((f.*parameter.member).value == 0);
    (f.*parameter.member).value = 1;
  }
  CHECK(f.rate.value == 1);
  CHECK(f.stride_loss.value == 1);
}
