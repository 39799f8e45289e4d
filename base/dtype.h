// Element types of tensors. Block-quantised formats (NF4) have no whole number of bytes per element
// and are described where they are used (models/quantisation.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/units.h"

namespace gpuplan {

enum class Dtype : std::uint8_t { F32, F16, BF16, F8E4M3, F8E5M2, I64, I32, I16, I8, U8, Bool, F64 };

/// Bytes of one element.
constexpr std::int64_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64:
    case Dtype::I64: return 8;
    case Dtype::F32:
    case Dtype::I32: return 4;
    case Dtype::F16:
    case Dtype::BF16:
    case Dtype::I16: return 2;
    case Dtype::F8E4M3:
    case Dtype::F8E5M2:
    case Dtype::I8:
    case Dtype::U8:
    case Dtype::Bool: return 1;
  }
  return 0;
}

/// `elements` values of `dtype`, without padding.
constexpr Bytes bytes_of(std::int64_t elements, Dtype dtype) { return {elements * size_of(dtype)}; }

template <class Enum>
struct NameTable;  // base/name_table.h, which device code does not include

NameTable<Dtype> names_of(Dtype);
std::string_view to_string(Dtype dtype);  // "bf16", "fp32", …
/// Reads "bf16", "bfloat16", "torch.bfloat16", "BF16", "float32", "fp32", … Throws InputError naming `where`.
Dtype parse_dtype(std::string_view text, std::string_view where);

}  // namespace gpuplan
