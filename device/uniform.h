// The random numbers of Device::fill_uniform: element `index` depends on seed and index alone, so that every device,
// with any number of threads, makes the same ones. Plain C++, for .cu files too.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random_bits.h"

namespace gpuplan {

/// In [low, high), before it is rounded to the dtype that is stored. The 24 upper bits are a float in [0, 1) without
/// rounding; one fused multiply-add, asked for by name, leaves no choice to the compiler.
GPUPLAN_HOST_DEVICE inline float uniform(std::uint64_t seed, std::uint64_t index, float low, float high) {
  const float unit = float(std::int32_t(random_bits(seed, index) >> 40)) * 0x1p-24F;
  const float value = fmaf(unit, high - low, low);
  return value < high ? value : low;  // rounded up to `high`: once in 2^24 at most
}

}  // namespace gpuplan
