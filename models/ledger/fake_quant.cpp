// Source: pytorch/ao @36027d82, torchao/quantization/qat/fake_quantizer.py, quant_primitives.py (clamp and, where
// scales get gradients, amax, division and multiplication keep fp32 operands), torchao/prototype/qat/nvfp4.py and mx.py
// (packed input and weight are kept); pytorch/torchtune @bd2a0fc7, torchtune/training/quantization.py; axolotl
// @067b021c, src/axolotl/utils/quantization.py.
#include "models/ledger/fake_quant.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace gpuplan {
namespace {

/// Bytes that backward keeps of an element beside the value that is multiplied; value_bytes: of that, 0 for the compute
/// dtype's. input 0: inputs are not quantised.
struct FakeQuantRow {
  Qat kind;
  double weight = 4, input = 4;
  double value_bytes = 0;
};
constexpr std::array kRows{FakeQuantRow{.kind = Qat::Int4, .weight = 2, .input = 0},  // scales in bf16
                           FakeQuantRow{.kind = Qat::Int8Int4},
                           FakeQuantRow{.kind = Qat::Int4Grouped, .weight = 16, .input = 0},
                           FakeQuantRow{.kind = Qat::Int8Int4Grouped, .weight = 16},
                           FakeQuantRow{.kind = Qat::Fp8Int4Grouped, .weight = 18},
                           FakeQuantRow{.kind = Qat::Fp8},
                           FakeQuantRow{.kind = Qat::Nvfp4, .weight = 0, .input = 0, .value_bytes = 0.5 + 1.0 / 16},
                           FakeQuantRow{.kind = Qat::Mxfp4, .weight = 0, .input = 0, .value_bytes = 0.5 + 1.0 / 32}};

const FakeQuantRow& row_of(Qat kind) {
  const auto row = std::ranges::find(kRows, kind, &FakeQuantRow::kind);
  GPUPLAN_CHECK(row != kRows.end(), "a fake quantiser without a row");
  return *row;
}

/// torchao replaces torch's Linear alone, torchtune's LoRA recipes what carries adapters alone.
bool is_fake_quantised(const Tape& t, const LinearRef& l) {
  if (t.c.recipe.qat == Qat::None || l.is_quantised) return false;
  const bool is_stack = l.copies > 1 && l.product == ExpertProduct::Grouped;
  return !is_stack && (!t.c.recipe.is_adapter() || l.is_adapted);
}

std::int64_t in_bytes(double bytes_per_element, std::int64_t elements) {
  return std::int64_t(bytes_per_element * double(elements));
}

/// A minimum, a maximum and ten elementwise kernels, most of them from fp32 to fp32; compiled two that read and write.
constexpr double kEagerTraffic = 58, kCompiledTraffic = 10, kEagerBackward = 40, kCompiledBackward = 10;
constexpr std::uint16_t kEagerKernels = 14, kCompiledKernels = 2, kBackwardKernels = 6;

FakeQuantised fake_quantise(Tape& t, const char* name, LocalId from, std::int64_t elements, std::array<Dim, 4> dims,
                            double kept_bytes) {
  const FakeQuantRow& row = row_of(t.c.recipe.qat);
  FakeQuantised out{.is_made = true};
  out.value = row.value_bytes > 0 ? t.tensor(name, in_bytes(row.value_bytes, elements), Dtype::U8, dims)
                                  : t.tensor(name, elements, t.c.numerics.compute, dims);
  if (kept_bytes > 0) {
    out.range = t.tensor("values before the cut of a fake quantiser", in_bytes(kept_bytes, elements), Dtype::U8, dims);
    t.saves(out.range, "which elements the fake quantiser cut off");
  }
  const bool is_compiled = t.c.recipe.torch_compile;
  const LocalId wide = is_compiled ? kNoLocal : t.scratch("fake quantiser in fp32", elements, Dtype::F32);
  LayerOp& o = t.memory_op(OpKind::Scale, {from}, {out.value, out.range, wide},
                           (is_compiled ? kCompiledTraffic : kEagerTraffic) * double(elements));
  o.kernels = is_compiled ? kCompiledKernels : kEagerKernels;
  t.saves(out.value, "product of a fake quantised linear: its gradients");
  return out;
}

}  // namespace

FakeQuantised fake_quantised_input(Tape& t, const LinearRef& l, LocalId in) {
  if (!is_fake_quantised(t, l)) return {.value = in};
  const FakeQuantRow& row = row_of(t.c.recipe.qat);
  if (row.input <= 0 && row.value_bytes <= 0) return {.value = in};
  const Local like = t.at(in);
  return fake_quantise(t, "fake quantised input", in, like.elements, like.dims, row.input);
}

FakeQuantised fake_quantised_weight(Tape& t, const LinearRef& l, std::int64_t calls) {
  if (!is_fake_quantised(t, l)) return {};
  const double kept = l.is_trained ? row_of(t.c.recipe.qat).weight : 0;
  return fake_quantise(t, "fake quantised weight", kNoLocal, calls * l.copies * l.in * l.out,
                       {Dim::Count, Dim::Count, Dim::Count, Dim::Count}, kept);
}

void fake_quant_backward(Tape& t, LocalId gradient, LocalId range) {
  if (range == kNoLocal) return;
  const bool is_compiled = t.c.recipe.torch_compile;
  const std::int64_t elements = t.at(range).elements / 4;
  const LocalId wide = is_compiled ? kNoLocal : t.scratch("gradient of a fake quantiser in fp32", elements, Dtype::F32);
  LayerOp& o = t.memory_op(OpKind::Scale, {gradient, range}, {gradient, wide},
                           (is_compiled ? kCompiledBackward : kEagerBackward) * double(elements));
  o.kernels = is_compiled ? kCompiledKernels : kBackwardKernels;
}

}  // namespace gpuplan
