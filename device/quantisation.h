// Quantised weights and optimizer states: the levels of NF4 ("normal float": 16 levels, one 4-bit code per weight, one
// absmax per block) and of dynamic 8-bit quantisation, and quantising on the host, for weights that are quantised while
// they are loaded. The codes are those of bitsandbytes; kernels::Nf4Dequantise goes back. Plain C++, for .cu files too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpuplan {

/// Weights that share an absmax.
inline constexpr std::int64_t kNf4Block = 64;

/// The value of each code, times the block's absmax. Quantiles of a normal distribution scaled to [-1, 1], with an
/// exact zero. Source: Dettmers et al. 2023 (QLoRA), appendix E; the same floats as bitsandbytes' NF4 map.
inline constexpr float kNf4Levels[16] = {-1.0F,
                                         -0.6961928009986877F,
                                         -0.5250730514526367F,
                                         -0.39491748809814453F,
                                         -0.28444138169288635F,
                                         -0.18477343022823334F,
                                         -0.09105003625154495F,
                                         0.0F,
                                         0.07958029955625534F,
                                         0.16093020141124725F,
                                         0.24611230194568634F,
                                         0.33791524171829224F,
                                         0.44070982933044434F,
                                         0.5626170039176941F,
                                         0.7229568362236023F,
                                         1.0F};

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

struct Nf4Weights {
  std::vector<std::uint8_t> codes;  // [ceil(count / 2)], the first of a pair in the high half
  std::vector<float> absmax;        // [ceil(count / 64)]
};
/// The nearest level of each weight divided by the absmax of its block; the lower of two that are equally near.
/// Source: bitsandbytes, kQuantizeBlockwise and dQuantizeNF4, whose thresholds are the middles of the levels.
Nf4Weights nf4_quantise(std::span<const float> weights);

/// Double quantisation of absmax: offset + level x scale of the block of 256, level of the signed dynamic map.
struct Nf4Absmax {
  std::vector<std::uint8_t> codes;  // [count]
  std::vector<float> scales;        // [ceil(count / 256)]
  float offset = 0;                 // the mean
};
/// Source: QLoRA, section 3; bitsandbytes quantize_4bit(compress_statistics=True).
Nf4Absmax nf4_quantise_absmax(std::span<const float> absmax);

}  // namespace gpuplan
