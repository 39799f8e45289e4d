// What kernels compute with: stored types and their loads, loops over the team, exp. Everything here is inlined or
// internal to the source that includes it (see cmake/CpuVariants.cmake).
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/error.h"
#include "device/narrow_floats.h"

namespace gpuplan {
namespace {

struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};
struct F8 {
  std::uint8_t bits;
};

GPUPLAN_INLINE float load(float x) { return x; }
GPUPLAN_INLINE float load(const Bf16& x) { return bf16_to_float(x.bits); }
GPUPLAN_INLINE float load(const F16& x) { return f16_to_float(x.bits); }
GPUPLAN_INLINE float load(const F8& x) { return f8e4m3_to_float(x.bits); }
GPUPLAN_INLINE void store(float& to, float x) { to = x; }
GPUPLAN_INLINE void store(Bf16& to, float x) { to.bits = float_to_bf16(x); }
GPUPLAN_INLINE void store(F16& to, float x) { to.bits = float_to_f16(x); }
GPUPLAN_INLINE void store(F8& to, float x) { to.bits = float_to_f8e4m3(x); }

/// Calls f with a value of the stored type.
template <class F>
GPUPLAN_INLINE void with_type(Dtype dtype, F f) {
  switch (dtype) {
    case Dtype::F32: return f(float{});
    case Dtype::BF16: return f(Bf16{});
    case Dtype::F16: return f(F16{});
    default: break;
  }
  fail_check("dtype is fp32, bf16 or fp16", "a kernel of the CPU device got another dtype", __FILE__, __LINE__);
}

/// Work below this many elements stays on one thread: waking a team takes 2 to 5 us, an element about 0.3 ns.
constexpr std::int64_t kAlone = 16384;

/// exp to about 1 ulp; 0 below -87.3, where the result would be denormal; infinite above 88.4, where 2^n is (of open
/// sign beyond 2^22); NaN of NaN and of infinity. No clamp of floats: GCC makes branches of it, and masks of those
/// (twice the instructions). Source of the polynomial: Cephes, expf.
GPUPLAN_INLINE float fast_exp(float x) {
  constexpr float kLow = -87.3F, kRound = 12582912.0F;  // 1.5 x 2^23: adding it leaves an integer, in the last bits
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e = p * (r * r) + r + 1.0F;
  const auto power = std::int32_t(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound));
  const float scale = std::bit_cast<float>(std::uint32_t((power < 128 ? power : 128) + 127) << 23);
  return x < kLow ? 0.0F : e * scale;
}

}  // namespace
}  // namespace gpuplan
