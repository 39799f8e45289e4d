// Words of set-ups for dtypes, read and written alike. Internal to the meaning of set-ups.
#pragma once

#include <string>

#include "base/dtype.h"
#include "models/recipe.h"

namespace gpuplan {

inline std::string word_of(Dtype dtype) {
  if (dtype == Dtype::U8) return "u8";
  return dtype == Dtype::F32 ? "fp32" : dtype == Dtype::F16 ? "fp16" : "bf16";
}

inline Dtype computes_in(Precision precision) {
  if (precision == Precision::Fp32) return Dtype::F32;
  return precision == Precision::Fp16Mixed ? Dtype::F16 : Dtype::BF16;
}

}  // namespace gpuplan
