// Random bits that depend on seed and index alone, the same on every device, rank and thread. Plain C++, for .cu files
// too.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define GPUPLAN_HOST_DEVICE __host__ __device__
#else  // always inlined: used by code that is compiled for several instruction sets (cmake/CpuVariants.cmake)
#define GPUPLAN_HOST_DEVICE [[gnu::always_inline]]
#endif

namespace gpuplan {

/// Element `index` of the stream that `seed` begins.
/// Source: splitmix64, Steele, Lea and Flood 2014; its state after index + 1 steps, mixed.
GPUPLAN_HOST_DEVICE constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index = 0) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace gpuplan
