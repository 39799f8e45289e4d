#include "models/quantisation.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace gpuplan {
namespace {

// GPTQ: AutoGPTQ auto_gptq/nn_modules/qlinear/qlinear_cuda.py @v0.7.1, whose torch ops unpack weights and zeros
// (expand, shift, cast, and, …). AWQ: casper-hansen/AutoAWQ awq/modules/linear/gemm.py @v0.2.9. compressed-tensors:
// symmetric, vllm-project/compressed-tensors src/compressed_tensors/compressors/pack_quantized/base.py. AQLM:
// Vahe1994/AQLM inference_lib/src/aqlm/inference.py @e79a896, a scale per output feature. HQQ: mobiusml/hqq
// hqq/core/quantize.py
// @v0.2.8, scale and zero in the 16-bit compute dtype. NVFP4: NVIDIA/Model-Optimizer
// modelopt/torch/quantization/qtensor/nvfp4_tensor.py, an FP8 scale per 16 values and an fp32 one per tensor, which is
// not counted.
constexpr std::array kFormats{
    QuantFormat{.kind = BaseQuant::None, .text = "16-bit"},
    QuantFormat{.kind = BaseQuant::Nf4, .text = "NF4", .bits = 4, .is_bitsandbytes = true},
    QuantFormat{.kind = BaseQuant::Int8, .text = "8-bit", .bits = 8, .scale_bits = 32, .is_bitsandbytes = true},
    QuantFormat{.kind = BaseQuant::Gptq4,
                .text = "GPTQ",
                .bits = 4,
                .group = 128,
                .scale_bits = 16,
                .zero_bits = 4,
                .unpacking_kernels = 10},
    QuantFormat{.kind = BaseQuant::Awq, .text = "AWQ", .bits = 4, .group = 128, .scale_bits = 16, .zero_bits = 4},
    QuantFormat{.kind = BaseQuant::Compressed, .text = "compressed-tensors", .bits = 4, .group = 128, .scale_bits = 16},
    QuantFormat{.kind = BaseQuant::Aqlm, .text = "AQLM", .bits = 2, .scale_bits = 16},
    QuantFormat{.kind = BaseQuant::Hqq, .text = "HQQ", .bits = 4, .group = 64, .scale_bits = 16, .zero_bits = 16},
    QuantFormat{.kind = BaseQuant::Nvfp4, .text = "NVFP4", .bits = 4, .group = 16, .scale_bits = 8}};

std::int64_t bytes_of_bits(std::int64_t bits) { return ceil_div(bits, 8); }

}  // namespace

const QuantFormat& format_of(BaseQuant kind) {
  const auto row = std::ranges::find(kFormats, kind, &QuantFormat::kind);
  GPUPLAN_CHECK(row != kFormats.end(), "a format without a row");
  return *row;
}

std::int64_t QuantSpec::bits() const { return packed ? packed->bits : format_of(kind).bits; }

Bytes quantised_bytes(std::int64_t elements, std::int64_t rows, const QuantSpec& quant) {
  if (quant.kind == BaseQuant::Nf4) {
    const std::int64_t values = ceil_div(elements, 2), num_blocks = ceil_div(elements, quant.block_size);
    if (!quant.double_quant) return {values + 4 * num_blocks};
    return {values + num_blocks + 4 * ceil_div(num_blocks, kScalesPerNestedBlock)};
  }
  const QuantFormat& format = format_of(quant.kind);
  const PackedBase base = quant.packed.value_or(PackedBase{.bits = format.bits, .group = format.group});
  const std::int64_t groups = base.group > 0 ? ceil_div(elements, base.group) : rows;
  const std::int64_t zero_bits = format.zero_bits == 4 ? base.bits : format.zero_bits;  // packed as values are
  return {bytes_of_bits(elements * base.bits) + bytes_of_bits(groups * format.scale_bits) +
          bytes_of_bits(groups * zero_bits) + base.codebook_bytes};
}

}  // namespace gpuplan
