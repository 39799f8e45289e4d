#include "sim/sim_time.h"

#include <cmath>

#include <doctest/doctest.h>

#include "base/error.h"

using namespace gpuplan;

TEST_CASE("the simulator's clock refuses what 2^63 picoseconds cannot count, instead of wrapping around") {
  // 2^63 ps = 9.223372036854775808e6 s; the nearest double below it is 1024 ps less.
  const Seconds last{0x1p63 * 1e-12};
  CHECK_THROWS_AS((void)to_sim_time(last), InputError);
  CHECK_THROWS_AS((void)to_sim_time(Seconds{1e300}), InputError);
  CHECK_THROWS_AS((void)to_sim_time(Seconds{INFINITY}), InputError);
  CHECK_THROWS_AS((void)to_sim_time(Seconds{NAN}), InputError);
  CHECK(to_sim_time(Seconds{9.2e6}).ps == 9'200'000'000'000'000'000);
  CHECK(to_sim_time(Seconds{-1}).ps == 0);
  CHECK(to_sim_time(Seconds{1e-13}).ps == 1);  // rounds up

  CHECK_THROWS_AS((void)(kNeverTime + SimTime{1}), InputError);
  CHECK_THROWS_AS((void)(SimTime{-2} - kNeverTime), InputError);
  CHECK((kNeverTime + SimTime{0}) == kNeverTime);
  SimTime sum{kNeverTime.ps - 1};
  sum += SimTime{1};
  CHECK(sum == kNeverTime);
  CHECK_THROWS_AS(sum += SimTime{1}, InputError);
  CHECK(sum == kNeverTime);
}
