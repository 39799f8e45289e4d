// Storage of a frozen base in few bits: formats, their fields, and the bytes of a weight.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"
#include "base/units.h"

namespace gpuplan {

/// Storage of the linears of a frozen base. Nf4 and Int8 are made by bitsandbytes while the model loads, or stored so;
/// the others are checkpoints that were quantised before (gptq4 is a name from the time of 4 bits alone).
enum class BaseQuant : std::uint8_t { None, Nf4, Int8, Gptq4, Awq, Compressed, Aqlm, Hqq, Nvfp4 };

/// A row per format. Scales and zero points stand once per group of values of an output feature.
struct QuantFormat {
  BaseQuant kind{};
  std::string_view text;         // for people
  std::int64_t bits{}, group{};  // where the checkpoint does not say; group 0: one per output feature
  std::int64_t scale_bits{}, zero_bits{};
  bool is_bitsandbytes = false;
  std::int64_t unpacking_kernels = 2;  // that make a 16-bit weight of it
};

const QuantFormat& format_of(BaseQuant kind);

/// Numbers of a format as one checkpoint has them.
struct PackedBase {
  std::int64_t bits = 4, group = 128;  // group 0: one per output feature
  std::int64_t codebook_bytes = 0;     // of each linear (AQLM)
  bool operator==(const PackedBase&) const = default;
};

/// Quantised base (Dettmers et al. 2023): NF4 blocks with fp32 absmax, which double quantisation stores in 8 bits.
struct QuantSpec {
  BaseQuant kind = BaseQuant::None;
  std::int64_t block_size = 64;
  bool double_quant = true;
  /// bnb_4bit_quant_storage. Unset: uint8, or the dtype of the weights beside it where these are sharded.
  std::optional<Dtype> storage_dtype;
  bool quantises_experts = false;    // experts that are one parameter too, by an option of the trainer
  std::optional<PackedBase> packed;  // of formats other than bitsandbytes'; unset: as usual for the format
  bool operator==(const QuantSpec&) const = default;

  /// Bits of a value, without its scale.
  std::int64_t bits() const;
};

inline constexpr std::int64_t kScalesPerNestedBlock = 256;  // of double quantisation

/// Stored bytes of a linear of `elements` values (`rows` output features): packed values and their scales.
///
/// NF4: half a byte per value and one fp32 absmax per block of 64 (4.5 bits); double quantisation stores the absmax in
/// 8 bits with one fp32 per 256 of them (4.127 bits). int8 (LLM.int8): one byte and one fp32 scale per row. Packed
/// formats: bits of the values, and per group a scale and a packed zero point. Sources: arXiv 2305.14314 section 3,
/// bitsandbytes functional.py; the rows of format_of().
Bytes quantised_bytes(std::int64_t elements, std::int64_t rows, const QuantSpec& quant);

}  // namespace gpuplan
