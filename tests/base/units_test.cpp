#include "base/units.h"

#include <concepts>
#include <limits>

#include <doctest/doctest.h>

#include "base/error.h"

namespace gpuplan {
namespace {

using namespace literals;

template <class A, class B>
concept Adds = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Divides = requires(A a, B b) {
  a / b;
};
template <class A, class B>
concept Compares = requires(A a, B b) {
  a < b;
};

TEST_CASE("units mix only where physics says how") {
  static_assert(Adds<Bytes, Bytes> && Adds<Seconds, Seconds>);
  static_assert(!Adds<Bytes, Seconds> && !Adds<Seconds, Flops> && !Adds<Flops, FlopsPerSec>);
  static_assert(!Adds<Bytes, std::int64_t> && !Adds<Seconds, double>);
  static_assert(!Compares<BytesPerSec, FlopsPerSec> && !Compares<Seconds, Bytes>);
  static_assert(!Divides<Bytes, FlopsPerSec> && !Divides<Seconds, Bytes>);
  static_assert(std::same_as<decltype(1_GiB / 1.0_GBps), Seconds>);
  static_assert(std::same_as<decltype(Flops{1} / 1.0_TFLOPs), Seconds>);
  static_assert(std::same_as<decltype(1_GiB / 1.0_s), BytesPerSec>);
  static_assert(std::same_as<decltype(Flops{1} / 1.0_s), FlopsPerSec>);
  static_assert(std::same_as<decltype(1_GiB / 1_MiB), double>);
}

TEST_CASE("a message over a rate takes its size over that rate") {
  // 512 MiB / 100 GB/s = 536870912 / 1e11 s
  CHECK((512_MiB / 100.0_GBps).value == doctest::Approx(5.36870912e-3));
}

TEST_CASE("work over a rate takes its amount over that rate") {
  // 2 * 4096^3 FLOP at 312 TFLOP/s = 1.37438953472e11 / 3.12e14 s
  CHECK((Flops{2.0 * 4096 * 4096 * 4096} / 312.0_TFLOPs).value == doctest::Approx(4.4050946e-4));
}

TEST_CASE("times that are infinite or no number are refused where they arise") {
  const double huge = std::numeric_limits<double>::max();
  CHECK((Seconds{huge} - Seconds{huge}).value == 0);
  CHECK_THROWS_AS((void)(Seconds{huge} + Seconds{huge}), InputError);
  CHECK_THROWS_AS((void)(Seconds{-huge} - Seconds{huge}), InputError);
  CHECK_THROWS_AS((void)(Seconds{huge} * 2.0), InputError);
  CHECK_THROWS_AS((void)(2.0 * Seconds{huge}), InputError);
  CHECK_THROWS_AS((void)(1.0_s / 0.0), InputError);
  CHECK_THROWS_AS((void)(1_GiB / BytesPerSec{}), InputError);
  CHECK_THROWS_AS((void)(0_B / BytesPerSec{}), InputError);  // 0 / 0
  CHECK_THROWS_AS((void)(Flops{1} / FlopsPerSec{}), InputError);
  Seconds sum{huge};
  CHECK_THROWS_AS(sum += Seconds{huge}, InputError);
  CHECK(sum.value == huge);
}

TEST_CASE("bytes are exact where a double is not") {
  // 2^53 + 1 is the first whole number that a double cannot hold.
  const Bytes large{(std::int64_t{1} << 53) + 1};
  CHECK((large - 1_B).count == std::int64_t{1} << 53);
  CHECK((large * 3).count == 3 * ((std::int64_t{1} << 53) + 1));
}

TEST_CASE("bytes add, subtract, negate, scale and compare") {
  Bytes total = 1_KiB;
  total += 24_B;
  total -= 48_B;
  CHECK(total == 1000_B);
  CHECK(-total == Bytes{-1000});
  CHECK(2 * total == total * 2);
  CHECK(999_B < total);
  CHECK(1_GiB / 4_MiB == 256.0);
}

TEST_CASE("quantities add, scale and compare like numbers") {
  Seconds time = 2.0_s;
  time += 500.0_ms;
  time -= 1.0_s;
  CHECK(time.value == doctest::Approx(1.5));
  CHECK((2 * time / 3).value == doctest::Approx(1.0));
  CHECK(time / 0.5_s == doctest::Approx(3.0));
  CHECK(10.0_us < 1.0_ms);
}

TEST_CASE("shard rounds up, so that the shards together hold everything") {
  CHECK(shard(0_B, 4) == 0_B);
  CHECK(shard(8_B, 4) == 2_B);
  CHECK(shard(9_B, 4) == 3_B);  // 4 shards of 3 B hold 12 B: 3 B of padding
  CHECK(shard(1_B, 8) == 1_B);
  CHECK(shard(80_GiB, 1) == 80_GiB);
}

TEST_CASE("ceil_div is the number of parts needed") {
  CHECK(ceil_div(0, 64) == 0);
  CHECK(ceil_div(1, 64) == 1);
  CHECK(ceil_div(64, 64) == 1);
  CHECK(ceil_div(65, 64) == 2);
}

TEST_CASE("literals are in base units") {
  CHECK(1_GiB == Bytes{1073741824});
  CHECK(1_MiB == Bytes{1048576});
  CHECK((5.0_us).value == doctest::Approx(5e-6));
  CHECK((100.0_GBps).value == 1e11);
  CHECK((312.0_TFLOPs).value == doctest::Approx(3.12e14));
}

TEST_CASE("bytes that 64 bits cannot count are refused") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Bytes most{kMost}, least{std::numeric_limits<std::int64_t>::min()};
  Bytes sum = most, difference = least;
  CHECK_THROWS_AS(most + 1_B, InputError);
  CHECK_THROWS_AS(sum += 1_B, InputError);
  CHECK_THROWS_AS(least - 1_B, InputError);
  CHECK_THROWS_AS(difference -= 1_B, InputError);
  CHECK_THROWS_AS(-least, InputError);
  CHECK_THROWS_AS(1_GiB * (std::int64_t(1) << 33), InputError);  // 2^63
  CHECK_THROWS_AS((std::int64_t(1) << 33) * 1_GiB, InputError);
  CHECK_THROWS_AS(shard(most, 2), InputError);
  CHECK(1_GiB * (std::int64_t(1) << 32) == Bytes{std::int64_t(1) << 62});
  CHECK((most - 1_B) + 1_B == most);
  CHECK(shard(most, 1) == most);
}

}  // namespace
}  // namespace gpuplan
