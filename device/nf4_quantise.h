// Weights to NF4 on the host, as they are loaded. Source: Dettmers et al. 2023; bitsandbytes functional.py quantize_4bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpuplan {

/// As TrainingKernels::nf4_expand reads it: two codes per byte, the first in the high half; a block of kNf4Block shares an absmax.
struct Nf4Weights {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> absmax_codes;  // of double quantisation, else empty
  std::vector<float> absmax_scales;        // of 256 absmax each, or the absmax themselves
  float absmax_offset = 0;
};

/// Nearest level of each value over its block's absmax. Double quantisation: absmax less their mean (the offset), in blocks of 256,
/// by the nearest value of the signed dynamic map over the block's largest.
Nf4Weights nf4_quantise(std::span<const float> values, bool double_quantises);

}  // namespace gpuplan
