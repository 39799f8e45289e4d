// Sums of 16-bit floats, which MPI itself does not know: each addition in fp32, rounded to nearest even.
#include "device/cpu/variant.h"
#include "device/narrow_floats.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {

void sum_bf16(const std::uint16_t* from, std::uint16_t* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = float_to_bf16(bf16_to_float(to[i]) + bf16_to_float(from[i]));
}

void sum_f16(const std::uint16_t* from, std::uint16_t* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = float_to_f16(f16_to_float(to[i]) + f16_to_float(from[i]));
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
