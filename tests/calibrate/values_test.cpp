// Numbers as the host reads them.
#include <doctest/doctest.h>

#include "calibrate/probes/values.h"

using namespace gpuplan;

TEST_CASE("the rounding error of a dtype is half the distance from 1 to the next number") {
  struct One {
    Dtype dtype;
    std::uint32_t bits;
  };
  for (const One one :
       {One{Dtype::F32, 0x3f800000}, One{Dtype::BF16, 0x3f80}, One{Dtype::F16, 0x3c00}, One{Dtype::F8E4M3, 0x38}}) {
    const std::uint32_t next = one.bits + 1;
    CHECK(number_at(reinterpret_cast<const std::byte*>(&one.bits), one.dtype) == 1);
    CHECK(rounding_error(one.dtype) == (number_at(reinterpret_cast<const std::byte*>(&next), one.dtype) - 1) / 2);
  }
}
