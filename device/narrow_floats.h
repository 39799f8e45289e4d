// Narrow floats as bits, to float and back, rounding to nearest even; without branches, so that loops over them
// vectorise. Always inlined: these are used by code that is compiled for several instruction sets.
#pragma once

#include <bit>
#include <cstdint>

#define GPUPLAN_INLINE [[gnu::always_inline]] inline

namespace gpuplan {

GPUPLAN_INLINE float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t(bits) << 16); }

GPUPLAN_INLINE std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;
  return std::uint16_t((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

/// The exponent is moved by a multiplication, which also makes denormals normal; what was infinite or NaN is marked
/// again.
GPUPLAN_INLINE float f16_to_float(std::uint16_t half) {
  const float magnitude = std::bit_cast<float>((std::uint32_t(half) & 0x7fffU) << 13) * 0x1p112F;
  const std::uint32_t infinite = magnitude >= 65536.0F ? 0x7f800000U : 0U;
  const std::uint32_t sign = (std::uint32_t(half) & 0x8000U) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | infinite | sign);
}

/// `mantissa_bits` and `bias` of the narrow format; bits of a magnitude below what overflows. A denormal is rounded by
/// adding the power of two whose last place is the format's smallest step.
template <int mantissa_bits, int bias>
GPUPLAN_INLINE std::uint32_t narrow_magnitude(std::uint32_t bits) {
  constexpr int kDropped = 23 - mantissa_bits;
  constexpr std::uint32_t kStep = std::uint32_t(127 - bias + kDropped + 1) << 23;
  const std::uint32_t normal =
      (bits - (std::uint32_t(127 - bias) << 23) + (1U << (kDropped - 1)) - 1U + ((bits >> kDropped) & 1U)) >> kDropped;
  const std::uint32_t denormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + std::bit_cast<float>(kStep)) - kStep;
  return bits < (std::uint32_t(128 - bias) << 23) ? denormal : normal;
}

GPUPLAN_INLINE std::uint16_t float_to_f16(float value) {
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t bits = all & 0x7fffffffU;
  const std::uint32_t large = bits > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = narrow_magnitude<10, 15>(bits);
  return std::uint16_t((bits >= 0x47800000U ? large : finite) | ((all >> 16) & 0x8000U));
}

/// E4M3 without infinities: 0x7f is NaN, the largest is 448.
GPUPLAN_INLINE float f8e4m3_to_float(std::uint8_t byte) {
  const float magnitude = std::bit_cast<float>((std::uint32_t(byte) & 0x7fU) << 20) * 0x1p120F;
  const std::uint32_t nan = (byte & 0x7fU) == 0x7fU ? 0x7fc00000U : 0U;
  const std::uint32_t sign = (std::uint32_t(byte) & 0x80U) << 24;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | nan | sign);
}

/// Rounds; values larger than 448 become 448 (as CUDA's saturating conversion does).
GPUPLAN_INLINE std::uint8_t float_to_f8e4m3(float value) {
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t bits = all & 0x7fffffffU;
  const std::uint32_t large = bits > 0x7f800000U ? 0x7fU : 0x7eU;
  const std::uint32_t finite = narrow_magnitude<3, 7>(bits);
  return std::uint8_t((bits >= std::bit_cast<std::uint32_t>(448.0F) ? large : finite) | ((all >> 24) & 0x80U));
}

}  // namespace gpuplan
