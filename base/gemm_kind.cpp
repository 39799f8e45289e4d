#include "base/gemm_kind.h"

#include "base/named_values.h"

namespace gpuplan {
namespace {

struct TypeRow {
  GemmType type;
  std::string_view name;
  Dtype operands;
};
constexpr std::array kTypes{TypeRow{GemmType::F32, "fp32", Dtype::F32}, TypeRow{GemmType::TF32, "tf32", Dtype::F32},
                            TypeRow{GemmType::BF16, "bf16", Dtype::BF16}, TypeRow{GemmType::F16, "fp16", Dtype::F16},
                            TypeRow{GemmType::F8, "fp8", Dtype::F8E4M3}};
constexpr std::array<std::string_view, 3> kLayouts{"forward", "input-gradient", "weight-gradient"};

}  // namespace

std::string_view to_string(GemmType type) { return kTypes[std::size_t(type)].name; }
std::string_view to_string(GemmLayout layout) { return kLayouts[std::size_t(layout)]; }
Dtype operand_dtype(GemmType type) { return kTypes[std::size_t(type)].operands; }

GemmType parse_gemm_type(std::string_view text, std::string_view where) {
  return parse_named(kGemmTypes, text, where, "GEMM type");
}

GemmLayout parse_gemm_layout(std::string_view text, std::string_view where) {
  return parse_named(kGemmLayouts, text, where, "GEMM layout");
}

}  // namespace gpuplan
