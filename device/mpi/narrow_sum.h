// Sums of 16-bit floats, which MPI itself does not know: each addition in fp32, rounded to nearest even.
#pragma once

#include <cstdint>

#include "device/cpu/variant.h"

namespace gpuplan {

/// to[i] += from[i], on the bits of the numbers.
using NarrowSum = void(const std::uint16_t* from, std::uint16_t* to, std::int64_t count);

}  // namespace gpuplan

namespace gpuplan::GPUPLAN_CPU_VARIANT {
NarrowSum sum_bf16;
NarrowSum sum_f16;
}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
