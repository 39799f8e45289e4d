#include "base/dtype.h"

#include <array>
#include <string>

#include "base/error.h"
#include "base/name_table.h"
#include "base/names.h"

namespace gpuplan {
namespace {

// First name of a dtype is the one we print; the others are what torch, safetensors and people write.
constexpr std::array kDtypeNames{NameRow<Dtype>{"fp32", Dtype::F32},
                                 NameRow<Dtype>{"float32", Dtype::F32},
                                 NameRow<Dtype>{"f32", Dtype::F32},
                                 NameRow<Dtype>{"float", Dtype::F32},
                                 NameRow<Dtype>{"fp16", Dtype::F16},
                                 NameRow<Dtype>{"float16", Dtype::F16},
                                 NameRow<Dtype>{"f16", Dtype::F16},
                                 NameRow<Dtype>{"half", Dtype::F16},
                                 NameRow<Dtype>{"bf16", Dtype::BF16},
                                 NameRow<Dtype>{"bfloat16", Dtype::BF16},
                                 NameRow<Dtype>{"fp8-e4m3", Dtype::F8E4M3},
                                 NameRow<Dtype>{"f8_e4m3", Dtype::F8E4M3},
                                 NameRow<Dtype>{"float8_e4m3fn", Dtype::F8E4M3},
                                 NameRow<Dtype>{"fp8-e5m2", Dtype::F8E5M2},
                                 NameRow<Dtype>{"f8_e5m2", Dtype::F8E5M2},
                                 NameRow<Dtype>{"float8_e5m2", Dtype::F8E5M2},
                                 NameRow<Dtype>{"int64", Dtype::I64},
                                 NameRow<Dtype>{"i64", Dtype::I64},
                                 NameRow<Dtype>{"int32", Dtype::I32},
                                 NameRow<Dtype>{"i32", Dtype::I32},
                                 NameRow<Dtype>{"int16", Dtype::I16},
                                 NameRow<Dtype>{"i16", Dtype::I16},
                                 NameRow<Dtype>{"int8", Dtype::I8},
                                 NameRow<Dtype>{"i8", Dtype::I8},
                                 NameRow<Dtype>{"uint8", Dtype::U8},
                                 NameRow<Dtype>{"u8", Dtype::U8},
                                 NameRow<Dtype>{"bool", Dtype::Bool},
                                 NameRow<Dtype>{"fp64", Dtype::F64},
                                 NameRow<Dtype>{"float64", Dtype::F64},
                                 NameRow<Dtype>{"f64", Dtype::F64}};

}  // namespace

NameTable<Dtype> names_of(Dtype) { return {"data type", kDtypeNames}; }
std::string_view to_string(Dtype dtype) { return names_of(dtype).name_of(dtype); }

Dtype parse_dtype(std::string_view text, std::string_view where) {
  std::string lower = to_lower(text);
  if (lower.starts_with("torch.")) lower.erase(0, 6);
  for (const NameRow<Dtype>& row : kDtypeNames)
    if (row.name == lower) return row.value;
  throw InputError(std::string(where), "unknown data type '" + std::string(text) + "'",
                   "use one of fp32, bf16, fp16, int8, uint8");
}

}  // namespace gpuplan
