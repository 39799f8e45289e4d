// The random numbers of Device::fill_uniform: element `index` depends on seed and index alone, so that every device, with any
// number of threads, makes the same ones. Plain C++, for .cu files too.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define GPUPLAN_HOST_DEVICE __host__ __device__
#else  // always inlined: used by code that is compiled for several instruction sets (cmake/CpuVariants.cmake)
#define GPUPLAN_HOST_DEVICE [[gnu::always_inline]]
#endif

namespace gpuplan {

/// Element `index` of the stream that `seed` begins.
/// Source: splitmix64, Steele, Lea and Flood 2014; its state after index + 1 steps, mixed.
GPUPLAN_HOST_DEVICE constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

/// In [low, high), before it is rounded to the dtype that is stored. The 24 upper bits are a float in [0, 1) without rounding; one
/// fused multiply-add, asked for by name, leaves no choice to the compiler.
GPUPLAN_HOST_DEVICE inline float uniform(std::uint64_t seed, std::uint64_t index, float low, float high) {
  const float unit = float(std::int32_t(random_bits(seed, index) >> 40)) * 0x1p-24F;
  const float value = fmaf(unit, high - low, low);
  return value < high ? value : low;  // rounded up to `high`: once in 2^24 at most
}

}  // namespace gpuplan
