// DoRA around a linear: y = base + (m / |W + s B A| - 1) base + m / |W + s B A| s B A x. Every forward, and so every
// recompute, multiplies B and A, adds the weight to it and takes the norm of each row; only the magnitudes m and the
// adapter get gradients. Memory beside LoRA's: m [out] with its gradient and states (models/trained_model.cpp); while
// the norm is made, several matrices [out, in] (norm_of_rows); until backward, base and adapter output and the norm,
// and where the base output is made again, a weight [out, in]; twice the output beside the kernels around m, both ways.
// Sources: huggingface/peft src/peft/tuners/lora/layer.py @v0.9.0, dora.py @v0.12.0 to v0.20.0 (which release does
// what: adapters.dora.* of data/stack/peft.json); pytorch/torchtune torchtune/modules/peft/dora.py @v0.6.1.
#include <tuple>

#include "models/ledger/linear_parts.h"

namespace gpuplan {
namespace {

double bytes(std::int64_t elements, Dtype dtype) { return double(elements * size_of(dtype)); }

/// B A [out, in]; of a version that `multiplies_identity`, as A and B are used on an identity matrix, so that FSDP sees
/// the modules called.
LocalId product_of_adapters(Tape& t, const LinearRef& l) {
  const DtypePolicy& n = t.c.numerics;
  const LocalId product = t.scratch("product of DoRA's adapters", l.in * l.out, n.adapter_compute);
  if (t.c.framework.adapters.dora.multiplies_identity) {
    const LocalId identity = t.scratch("identity for DoRA", l.in * l.in, n.adapter),
                  mid = t.scratch("identity times LoRA A", l.in * l.rank, n.adapter_compute);
    t.memory_op(OpKind::Copy, {}, {identity}, bytes(l.in * l.in, n.adapter));
    t.gemm({identity}, {mid}, l.in, l.rank, l.in);
    t.gemm({mid}, {product}, l.in, l.out, l.rank);
  } else {
    t.gemm({}, {product}, l.out, l.in, l.rank);
  }
  return product;
}

/// |W + s B A| of every row [out]: the weight and the product converted where they are of another dtype, the scaled
/// product, the sum and its norm are kernels of their own.
LocalId norm_of_rows(Tape& t, const LinearRef& l, std::int64_t rows) {
  const DtypePolicy& n = t.c.numerics;
  const DoraCode& code = t.c.framework.adapters.dora;
  const std::int64_t elements = l.in * l.out;
  const LocalId dequantised = l.is_quantised ? usable_weight(t, l, rows) : kNoLocal;
  const LocalId multiplied = product_of_adapters(t, l);
  const Dtype stored = l.is_quantised ? n.compute : n.frozen, used = code.converts_weight ? n.adapter : stored;
  const Dtype product = code.casts_product ? used : n.adapter_compute;
  const bool converts = stored != used, casts = product != n.adapter_compute;
  const LocalId weight = converts ? t.scratch("weight for DoRA's norm", elements, used) : kNoLocal,
                cast = casts ? t.scratch("product of DoRA's adapters, cast", elements, product) : kNoLocal,
                scaled = t.scratch("scaled product of DoRA's adapters", elements, product),
                sum = t.scratch("weight with DoRA's adapters", elements, used),
                norm = t.tensor("norm of DoRA's weight", l.out, used, {l.out_dim, Dim::Count, Dim::Count, Dim::Count});
  if (converts || casts)
    t.memory_op(OpKind::Cast, {dequantised, multiplied}, {weight, cast},
                (converts ? bytes(elements, stored) + bytes(elements, used) : 0) +
                    (casts ? bytes(elements, n.adapter_compute) + bytes(elements, product) : 0))
        .kernels = converts && casts ? 2 : 1;
  // the caller holds what was converted until the norm is there
  t.memory_op(OpKind::Norm, {dequantised, multiplied, weight, cast}, {scaled, sum, norm},
              3 * bytes(elements, product) + 3 * bytes(elements, used))
      .kernels = 3;
  return norm;
}

/// The base output again, of the adapter's input: with dropout it is another input, and older releases make it in any
/// case. Its weight, converted, is kept for the input's gradient.
struct OwnBase {
  LocalId output = kNoLocal, weight = kNoLocal;
};
OwnBase own_base_output(Tape& t, const LinearRef& l, LocalId input, std::int64_t rows) {
  const DtypePolicy& n = t.c.numerics;
  OwnBase own;
  own.weight = t.tensor("weight of DoRA's own base output", l.in * l.out, n.compute,
                        {l.out_dim, Dim::Count, Dim::Count, Dim::Count});
  t.memory_op(OpKind::Cast, {}, {own.weight}, bytes(l.in * l.out, n.adapter) + bytes(l.in * l.out, n.compute));
  own.output =
      t.tensor("DoRA's own base output", rows * l.out, n.compute, {Dim::Batch, Dim::Seq, l.out_dim, Dim::Count});
  t.gemm({input, own.weight}, {own.output}, rows, l.out, l.in);
  t.explain_saved(own.weight, "input gradient of DoRA's own base output");
  return own;
}

/// Bytes per value of the output that the chain of kernels around the magnitude moves, with `wide` bytes of what is
/// multiplied with it, `base` of the base output, `adapter` of the adapter's. Forward: two products, a scaling and two
/// sums.
double forward_bytes(double wide, double base, double adapter) { return 3 * base + adapter + 9 * wide; }
/// Backward: both products give two gradients each, of which the magnitude's are summed over the rows; casts.
double backward_bytes(double wide, double base, double adapter) { return 14 * wide + 7 * base + 2 * adapter; }

void magnitude_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const auto [y, base, adapter, norm, weight, x] =
      std::tuple{s.ids[0], s.ids[1], s.ids[2], s.ids[3], s.ids[4], s.ids[5]};
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t elements = t.at(base).elements, rows = elements / l.out;
  const Dtype wide = t.at(norm).dtype;
  const LocalId gradient = t.scratch("gradient of DoRA's output", 2 * elements, wide);
  t.memory_op(OpKind::Scale, {t.grad(y), base, adapter, norm}, {gradient},
              double(elements) * backward_bytes(double(size_of(wide)), double(size_of(t.at(base).dtype)),
                                                double(size_of(t.at(adapter).dtype))))
      .kernels = 12;
  if (weight == kNoLocal) return;
  const LocalId dx = t.tensor("input gradient of DoRA's own base output", rows * l.in, n.compute, t.at(x).dims);
  t.gemm({t.grad(y), weight}, {dx}, rows, l.in, l.out);
  t.add_grad(x, t.cast(dx, t.at(x).dtype, "input gradient of DoRA's own base output, cast"));
}

}  // namespace

LocalId dora_output(Tape& t, const LinearRef& l, LocalId x, LocalId input, LocalId base, LocalId adapter) {
  const std::int64_t elements = t.at(base).elements, rows = elements / l.out;
  const LocalId norm = norm_of_rows(t, l, rows);
  const DoraBase rule = t.c.framework.adapters.dora.base;
  const bool is_own = rule == DoraBase::Own || (rule == DoraBase::OwnWithDropout && t.c.recipe.lora.dropout > 0);
  const OwnBase own = is_own ? own_base_output(t, l, input, rows) : OwnBase{.output = base};
  const Dtype out = t.at(base).dtype, magnitude = t.c.numerics.adapter,
              wide = size_of(magnitude) > size_of(out) ? magnitude : out;
  const LocalId y = t.tensor(l.name, elements, wide, t.at(base).dims, t.at(base).kind);
  const LocalId parts = t.scratch("DoRA's parts of the output", 2 * elements, wide);
  t.memory_op(OpKind::Scale, {base, own.output, adapter, norm}, {y, parts},
              double(elements) *
                  forward_bytes(double(size_of(wide)), double(size_of(out)), double(size_of(t.at(adapter).dtype))))
      .kernels = 6;
  t.explain_saved(own.output, "output before DoRA's magnitude");
  t.explain_saved(adapter, "adapter output before DoRA's magnitude");
  t.explain_saved(norm, "norm of DoRA's weight");
  const LocalId result = t.cast(y, out, l.name);
  t.then_backward(magnitude_backward, {result, own.output, adapter, norm, own.weight, x}, &l);
  return result;
}

}  // namespace gpuplan
