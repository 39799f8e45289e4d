#include "models/ledger/fake_quant.h"

#include <array>

#include "base/narrow.h"
#include "models/fake_quant_table.h"

namespace gpuplan {
namespace {

/// torchao replaces torch's Linear alone, torchtune's LoRA recipes what carries adapters alone.
bool is_fake_quantised(const Tape& t, const LinearRef& l) {
  if (t.c.recipe.qat == Qat::None || l.is_quantised) return false;
  const bool is_stack = l.copies > 1 && l.product == ExpertProduct::Grouped;
  return !is_stack && (!t.c.recipe.is_adapter() || l.is_adapted);
}

std::int64_t in_bytes(double bytes_per_element, std::int64_t elements) {
  return std::int64_t(bytes_per_element * double(elements));
}

const FakeQuantWork& work_of(const Recipe& recipe) {
  if (const auto& own = fake_quant_row(recipe.qat).work) return *own;
  return recipe.torch_compile ? fake_quant_table().compiled : fake_quant_table().eager;
}

FakeQuantised fake_quantise(Tape& t, const char* name, LocalId from, std::int64_t elements, std::array<Dim, 4> dims,
                            double kept_bytes) {
  const FakeQuantRow& row = fake_quant_row(t.c.recipe.qat);
  FakeQuantised out{.is_made = true};
  out.value = row.value_bytes > 0 ? t.tensor(name, in_bytes(row.value_bytes, elements), Dtype::U8, dims)
                                  : t.tensor(name, elements, t.c.numerics.compute, dims);
  if (kept_bytes > 0) {
    out.range = t.tensor("values before the cut of a fake quantiser", in_bytes(kept_bytes, elements), Dtype::U8, dims);
    t.explain_saved(out.range, "which elements the fake quantiser cut off");
  }
  const bool is_narrow = t.c.recipe.torch_compile || row.work;  // kernels of its own stay in 16 bit
  const LocalId wide = is_narrow ? kNoLocal : t.scratch("fake quantiser in fp32", elements, Dtype::F32);
  LayerOp& o = t.memory_op(OpKind::Scale, {from}, {out.value, out.range, wide},
                           work_of(t.c.recipe).forward_bytes * double(elements));
  o.kernels = narrow<std::uint32_t>(work_of(t.c.recipe).forward_kernels);
  t.explain_saved(out.value, "product of a fake quantised linear: its gradients");
  return out;
}

}  // namespace

FakeQuantised fake_quantised_input(Tape& t, const LinearRef& l, LocalId in) {
  if (!is_fake_quantised(t, l)) return {.value = in};
  const FakeQuantRow& row = fake_quant_row(t.c.recipe.qat);
  if (!row.quantises_inputs) return {.value = in};
  const Local like = t.at(in);
  return fake_quantise(t, "fake quantised input", in, like.elements, like.dims, row.input_bytes);
}

FakeQuantised fake_quantised_weight(Tape& t, const LinearRef& l, std::int64_t calls) {
  if (!is_fake_quantised(t, l)) return {};
  const double kept = l.is_trained ? fake_quant_row(t.c.recipe.qat).weight_bytes : 0;
  return fake_quantise(t, "fake quantised weight", kNoLocal, calls * l.copies * l.in * l.out,
                       {Dim::Count, Dim::Count, Dim::Count, Dim::Count}, kept);
}

void fake_quant_backward(Tape& t, LocalId gradient, LocalId range) {
  if (range == kNoLocal) return;
  const bool is_compiled = t.c.recipe.torch_compile;
  const std::int64_t elements = t.at(range).elements / 4;
  const LocalId wide = is_compiled ? kNoLocal : t.scratch("gradient of a fake quantiser in fp32", elements, Dtype::F32);
  LayerOp& o = t.memory_op(OpKind::Scale, {gradient, range}, {gradient, wide},
                           work_of(t.c.recipe).backward_bytes * double(elements));
  o.kernels = narrow<std::uint32_t>(work_of(t.c.recipe).backward_kernels);
}

}  // namespace gpuplan
