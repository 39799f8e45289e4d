// Bytes of a block-quantised weight. Source: Dettmers et al. 2023 (arXiv 2305.14314) section 3, bitsandbytes
// functional.py.
#pragma once

#include "models/recipe.h"

namespace gpuplan {

inline constexpr std::int64_t kScalesPerNestedBlock = 256;  // of double quantisation

/// Stored bytes of a linear of `elements` values (`rows` output features): packed values and their scales.
///
/// NF4: half a byte per value and one fp32 absmax per block of 64 (4.5 bits); double quantisation stores the absmax in
/// 8 bits with one fp32 per 256 of them (4.127 bits). int8 (LLM.int8): one byte and one fp32 scale per row. GPTQ:
/// packed values, and per group of 128 rows of a column a 16-bit scale and a packed 4-bit zero (4.156 bits; AutoGPTQ
/// qlinear_*.py).
constexpr Bytes quantised_bytes(std::int64_t elements, std::int64_t rows, const QuantSpec& quant) {
  if (quant.kind == BaseQuant::Int8) return {elements + 4 * rows};
  if (quant.kind == BaseQuant::Gptq4) {
    constexpr std::int64_t kGroup = 128;
    const std::int64_t groups = ceil_div(elements, kGroup);
    return {ceil_div(elements, 2) + 2 * groups + ceil_div(groups, 2)};
  }
  const std::int64_t packed = ceil_div(elements, 2), num_blocks = ceil_div(elements, quant.block_size);
  if (!quant.double_quant) return {packed + 4 * num_blocks};
  return {packed + num_blocks + 4 * ceil_div(num_blocks, kScalesPerNestedBlock)};
}

}  // namespace gpuplan
