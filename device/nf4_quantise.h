// NF4 on the host, for weights that are quantised while they are loaded: the same codes as bitsandbytes. device/nf4.h
// has the levels, `nf4_dequantise` and `nf4_expand` of a device go back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpuplan {

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
