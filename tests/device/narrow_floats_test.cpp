// Against arithmetic: every bit pattern of a narrow type, and the nearest one found by search.
#include "device/narrow_floats.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace gpuplan;

namespace {

/// Value of a float with `mantissa` bits and exponent `bias`, by definition.
double value_of(int bits, int mantissa, int bias) {
  const int fraction = bits & ((1 << mantissa) - 1), exponent = bits >> mantissa;
  if (exponent == 0) return std::ldexp(fraction, 1 - bias - mantissa);
  return std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
}

}  // namespace

TEST_CASE("every fp16 and fp8 number has the value its bits define, and goes back to the same bits") {
  for (int bits = 0; bits < 0x7c00; ++bits) {
    REQUIRE(double(f16_to_float(std::uint16_t(bits))) == value_of(bits, 10, 15));
    REQUIRE(float_to_f16(-f16_to_float(std::uint16_t(bits))) == (bits | 0x8000));
  }
  for (int bits = 0; bits < 0x7f; ++bits) {
    REQUIRE(double(f8e4m3_to_float(std::uint8_t(bits))) == value_of(bits, 3, 7));
    REQUIRE(float_to_f8e4m3(-f8e4m3_to_float(std::uint8_t(bits))) == (bits | 0x80));
  }
  for (int bits = 0; bits < 0x7f80; ++bits) REQUIRE(float_to_bf16(bf16_to_float(std::uint16_t(bits))) == bits);
}

TEST_CASE("half-way values go to the even neighbour, others to the nearer one") {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    const float low = f16_to_float(std::uint16_t(bits)), high = f16_to_float(std::uint16_t(bits + 1)),
                middle = (low + high) / 2;
    REQUIRE(float_to_f16(middle) == bits + (bits & 1));
    REQUIRE(float_to_f16(std::nextafterf(middle, 0)) == bits);
    REQUIRE(float_to_f16(std::nextafterf(middle, 1e9F)) == bits + 1);
  }
  for (int bits = 0; bits < 0x7e; ++bits) {
    const float low = f8e4m3_to_float(std::uint8_t(bits)), high = f8e4m3_to_float(std::uint8_t(bits + 1)),
                middle = (low + high) / 2;
    REQUIRE(float_to_f8e4m3(middle) == bits + (bits & 1));
    REQUIRE(float_to_f8e4m3(std::nextafterf(middle, 0)) == bits);
    REQUIRE(float_to_f8e4m3(std::nextafterf(middle, 1e9F)) == bits + 1);
  }
  CHECK(float_to_bf16(1.0F + 0x1p-8F) == 0x3f80);  // half-way between 1 and 1 + 2^-7: 1 is even
  CHECK(float_to_bf16(1.0F + 0x1p-8F + 0x1p-20F) == 0x3f81);
  CHECK(float_to_bf16(1.0F + 0x3p-8F) == 0x3f82);
}

TEST_CASE("infinity, NaN and overflow: fp16 overflows to infinity from 65520, fp8 stops at 448") {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(float_to_f16(65519) == 0x7bff);
  CHECK(float_to_f16(65520) == 0x7c00);
  CHECK(float_to_f16(-infinity) == 0xfc00);
  CHECK(std::isinf(f16_to_float(0x7c00)));
  CHECK(std::isnan(f16_to_float(float_to_f16(nan))));
  CHECK(std::isnan(f16_to_float(0xfe01)));
  CHECK(float_to_f8e4m3(1e6F) == 0x7e);
  CHECK(float_to_f8e4m3(-infinity) == 0xfe);
  CHECK(std::isnan(f8e4m3_to_float(float_to_f8e4m3(nan))));
  CHECK(std::isnan(bf16_to_float(float_to_bf16(nan))));
  CHECK(std::isinf(bf16_to_float(float_to_bf16(infinity))));
}
