// NF4 ("normal float"): 16 levels, one 4-bit code per weight, one absmax per block. Plain C++, for .cu files too.
#pragma once

#include <cstdint>

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

}  // namespace gpuplan
