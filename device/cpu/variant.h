// Which of the compiled instruction sets this processor runs. Sources that cmake/CpuVariants.cmake compiles several
// times live in a namespace named after the variant; `pick_variant` chooses among what they define.
#pragma once

#include <string>

#include "base/environment.h"
#include "base/error.h"

#ifndef GPUPLAN_CPU_VARIANT
#define GPUPLAN_CPU_VARIANT baseline
#endif

namespace gpuplan {

enum class CpuVariant { Baseline, Avx2, Avx512 };

/// The widest that the processor has; GPUPLAN_CPU_VARIANT=baseline or avx2 asks for less (tests run all of them).
/// Throws InputError for other words.
inline CpuVariant cpu_variant() {
#if defined(__x86_64__)
  const std::string asked = text_of_variable("GPUPLAN_CPU_VARIANT");
  if (!asked.empty() && asked != "baseline" && asked != "avx2" && asked != "avx512")
    throw InputError("GPUPLAN_CPU_VARIANT", "unknown instruction set '" + asked + "'", "one of baseline, avx2, avx512");
  if (asked == "baseline" || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return CpuVariant::Baseline;
  if (asked == "avx2" || !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return CpuVariant::Avx2;
  return CpuVariant::Avx512;
#else
  return CpuVariant::Baseline;
#endif
}

/// One of the three, which are all of one type (elsewhere than on x86 only the first exists).
#if defined(__x86_64__)
#define GPUPLAN_PICK_VARIANT(name)                                          \
  (::gpuplan::cpu_variant() == ::gpuplan::CpuVariant::Avx512 ? avx512::name \
   : ::gpuplan::cpu_variant() == ::gpuplan::CpuVariant::Avx2 ? avx2::name   \
                                                             : baseline::name)
#else
#define GPUPLAN_PICK_VARIANT(name) (baseline::name)
#endif

}  // namespace gpuplan
