// The 256 levels of dynamic 8-bit quantisation: seven decades down from 1, each with half as many levels as the one
// above. Plain C++, for .cu files too.
#pragma once

#include <cstdint>

namespace gpuplan {

/// Numbers that share an absmax.
inline constexpr std::int64_t kDynamicBlock = 256;

struct DynamicMap {
  float levels[256];   // ascending; times the block's absmax
  float middles[256];  // of level i and i + 1: what is larger is nearer to i + 1; the last is larger than anything in a
                       // block
};

/// Decade d, of 10^(d - 6), is cut from 0.1 to 1 into 2^d parts (signed) or 2^(d + 1), whose middles are levels; with
/// them 0 and 1, and of a signed map the negative of all but 1. In fp32 step by step, as there. Source: Dettmers et al.
/// 2022 (arXiv 2110.02861), bitsandbytes functional.py create_dynamic_map(signed, 7, 8).
constexpr DynamicMap dynamic_map(bool is_signed) {
  constexpr float kDecades[7] = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1.0F};
  DynamicMap map{};
  const int zero = is_signed ? 127 : 0;
  int next = zero + 1;
  for (int d = 0; d < 7; ++d) {
    const int parts = is_signed ? 1 << d : 2 << d;
    const float step = (1.0F - 0.1F) / float(parts);
    // torch.linspace counts from the nearer end.
    const auto cut = [=](int i) {
      return i < (parts + 1) / 2 ? 0.1F + step * float(i) : 1.0F - step * float(parts - i);
    };
    for (int i = 0; i < parts; ++i, ++next) {
      map.levels[next] = kDecades[d] * ((cut(i) + cut(i + 1)) / 2.0F);
      if (is_signed) map.levels[2 * zero - next] = -map.levels[next];
    }
  }
  map.levels[255] = 1.0F;
  for (int i = 0; i < 255; ++i) map.middles[i] = (map.levels[i] + map.levels[i + 1]) * 0.5F;
  map.middles[255] = 2.0F;
  return map;
}

/// The code of the level nearest to x (of two as near the lower one), looked for from a code near it.
constexpr int nearest_code(const float* middles, int from, float x) {
  int code = from;
  while (code < 255 && x > middles[code]) ++code;
  while (code > 0 && x <= middles[code - 1]) --code;
  return code;
}

}  // namespace gpuplan
