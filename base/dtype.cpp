#include "base/dtype.h"

#include <array>
#include <string>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

struct DtypeName {
  std::string_view name;
  Dtype dtype;
};

// First name of a dtype is the one we print; the others are what torch, safetensors and people write.
constexpr std::array kDtypeNames{DtypeName{"fp32", Dtype::F32},
                                 DtypeName{"float32", Dtype::F32},
                                 DtypeName{"f32", Dtype::F32},
                                 DtypeName{"float", Dtype::F32},
                                 DtypeName{"fp16", Dtype::F16},
                                 DtypeName{"float16", Dtype::F16},
                                 DtypeName{"f16", Dtype::F16},
                                 DtypeName{"half", Dtype::F16},
                                 DtypeName{"bf16", Dtype::BF16},
                                 DtypeName{"bfloat16", Dtype::BF16},
                                 DtypeName{"fp8-e4m3", Dtype::F8E4M3},
                                 DtypeName{"f8_e4m3", Dtype::F8E4M3},
                                 DtypeName{"float8_e4m3fn", Dtype::F8E4M3},
                                 DtypeName{"fp8-e5m2", Dtype::F8E5M2},
                                 DtypeName{"f8_e5m2", Dtype::F8E5M2},
                                 DtypeName{"float8_e5m2", Dtype::F8E5M2},
                                 DtypeName{"int64", Dtype::I64},
                                 DtypeName{"i64", Dtype::I64},
                                 DtypeName{"int32", Dtype::I32},
                                 DtypeName{"i32", Dtype::I32},
                                 DtypeName{"int16", Dtype::I16},
                                 DtypeName{"i16", Dtype::I16},
                                 DtypeName{"int8", Dtype::I8},
                                 DtypeName{"i8", Dtype::I8},
                                 DtypeName{"uint8", Dtype::U8},
                                 DtypeName{"u8", Dtype::U8},
                                 DtypeName{"bool", Dtype::Bool},
                                 DtypeName{"fp64", Dtype::F64},
                                 DtypeName{"float64", Dtype::F64},
                                 DtypeName{"f64", Dtype::F64}};

}  // namespace

std::string_view to_string(Dtype dtype) {
  for (const DtypeName& row : kDtypeNames)
    if (row.dtype == dtype) return row.name;
  return "?";
}

Dtype parse_dtype(std::string_view text, std::string_view where) {
  std::string lower = to_lower(text);
  if (lower.starts_with("torch.")) lower.erase(0, 6);
  for (const DtypeName& row : kDtypeNames)
    if (row.name == lower) return row.dtype;
  throw InputError(std::string(where), "unknown data type '" + std::string(text) + "'",
                   "use one of fp32, bf16, fp16, int8, uint8");
}

}  // namespace gpuplan
