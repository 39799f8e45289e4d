// Adapters of trained products that are no plain low-rank ones: with a vector between the factors (KaSA), with a
// block-diagonal factor (BD-LoRA), and those on the output of an MLP (bottleneck adapters, LoReFT). A trained factor
// keeps its input. Sources: in the rows of data/adapters.yaml.
#include <algorithm>

#include "models/adapter_kind.h"
#include "models/ledger/linear_parts.h"

namespace gpuplan {
namespace {

/// A trained factor [out, in] of an adapter. Of `blocks`, each multiplies its part of the input alone.
struct Factor {
  std::int64_t in{}, out{}, blocks = 1;
};

enum : std::size_t { kFactorInput, kFactorOwn, kFactorOutput };

double total_bytes(Tape& t, std::initializer_list<LocalId> ids) {
  double sum = 0;
  for (const LocalId id : ids) sum += double(t.at(id).bytes().count);
  return sum;
}

std::int64_t blocks_of(const Tape& t, const LinearRef& l, WeightUse use) {
  const LoraSpec& lora = t.c.recipe.lora;
  if (lora.kind->path != AdapterPath::BlockDiagonal) return 1;
  const bool divides_input = l.cut == Cut::Row;
  return (use == WeightUse::LowRankA) == divides_input ? std::max(lora.factor, lora.kind->factor) : 1;
}

Factor factor_of(const Tape& t, const LinearRef& l, WeightUse use, bool reads_output) {
  const std::int64_t wide_in = reads_output ? l.out : l.in;
  return use == WeightUse::LowRankA ? Factor{wide_in, l.rank, blocks_of(t, l, use)}
                                    : Factor{l.rank, l.out, blocks_of(t, l, use)};
}

template <WeightUse use, bool reads_output>
void factor_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const DtypePolicy& n = t.c.numerics;
  const Factor f = factor_of(t, l, use, reads_output);
  const LocalId x = s.ids[kFactorInput], own = s.ids[kFactorOwn], dy = t.grad(s.ids[kFactorOutput]);
  const std::int64_t N = t.at(own).elements / f.in;
  in_adapter_dtype(t, weight_gradient(t, {dy, own}, N, f.in / f.blocks, f.out, l.weight, n.adapter != n.adapter_compute,
                                      n.adapter, use));
  const LocalId dx = t.tensor("gradient of a factor's input", N * f.in, n.adapter_compute, t.at(x).dims);
  in_adapter_dtype(t, t.gemm({dy}, {dx}, N, f.in, f.out / f.blocks));
  t.add_grad(x, t.cast(dx, t.at(x).dtype, "gradient of a factor's input, cast"));
}

/// `own` times the factor; the gradient goes to `x`, of which `own` is a cast.
template <WeightUse use, bool reads_output>
LocalId times_factor(Tape& t, const LinearRef& l, LocalId x, LocalId own, const char* name) {
  const Factor f = factor_of(t, l, use, reads_output);
  const std::int64_t N = t.at(own).elements / f.in;
  const LocalId y = use == WeightUse::LowRankA ? t.tensor(name, N * f.out, t.c.numerics.adapter_compute,
                                                          {Dim::Batch, Dim::Seq, Dim::Rank, Dim::Count})
                                               : t.tensor(name, N * f.out, t.c.numerics.adapter_compute, t.at(x).dims);
  in_adapter_dtype(t, t.gemm({own}, {y}, N, f.out, f.in / f.blocks));
  t.explain_saved(own, "input of an adapter's factor: its gradient");
  t.then_backward(factor_backward<use, reads_output>, {x, own, y}, &l);
  return y;
}

/// One elementwise kernel over x, and one in backward; `keeps`: backward reads x.
LocalId elementwise(Tape& t, LocalId x, const char* name, OpKind kind, bool keeps) {
  const LocalId y = t.tensor(name, t.at(x).elements, t.at(x).dtype, t.at(x).dims);
  t.memory_op(kind, {x}, {y}, total_bytes(t, {x, y}));
  if (keeps) t.explain_saved(x, "activation backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Activation, {tape.grad(s.ids[2]), s.ids[1]}, {dx}, 3.0 * total_bytes(tape, {dx}));
        tape.add_grad(s.ids[0], dx);
      },
      {x, keeps ? x : kNoLocal, y});
  return y;
}

/// The base's output [rows, out] in the adapters' dtype, which is what they read.
LocalId output_in_adapter_dtype(Tape& t, LocalId base) {
  return convert(t, base, t.c.numerics.adapter_compute, "output of the MLP for its adapter");
}

/// Both parts get the gradient of their sum.
LocalId summed(Tape& t, const LinearRef& l, LocalId a, LocalId b) {
  const LocalId y = t.tensor(l.name, t.at(a).elements, t.at(a).dtype, t.at(a).dims);
  t.memory_op(OpKind::Add, {a, b}, {y}, total_bytes(t, {a, b, y}));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        for (const LocalId id : {s.ids[0], s.ids[1]}) tape.add_grad(id, tape.grad(s.ids[2]));
      },
      {a, b, y});
  return y;
}

LocalId bottleneck(Tape& t, const LinearRef& l, LocalId base) {
  const LocalId own = output_in_adapter_dtype(t, base);
  const LocalId low = times_factor<WeightUse::LowRankA, true>(t, l, own, own, "narrow activation of an adapter");
  const LocalId act = elementwise(t, low, "narrow activation after GELU", OpKind::Activation, true);
  return times_factor<WeightUse::LowRankB, true>(t, l, act, act, "adapter output");
}

/// h + (W h + b - R^T h) R^T: R is a product of as many reflections as it has columns, times a fixed matrix [out, out],
/// made at both of its uses.
LocalId intervention(Tape& t, const LinearRef& l, LocalId base) {
  const DtypePolicy& n = t.c.numerics;
  const LocalId own = output_in_adapter_dtype(t, base);
  const std::int64_t N = t.at(own).elements / l.out;
  const LocalId directions = t.tensor("orthogonal directions", 2 * l.out * l.rank, n.adapter,
                                      {Dim::Hidden, Dim::Rank, Dim::Count, Dim::Count});
  constexpr int kKernelsOfProduct = 8;  // lower triangle, squares, their sum, 2 / (1 + x), reflections, signs, product
  t.gemm({}, {directions}, 2 * l.out, l.rank, l.out).kernels = 2 * kKernelsOfProduct;
  t.explain_saved(directions, "orthogonal directions: gradients of what they multiply");
  const LocalId rotated = t.tensor("output along the directions", N * l.rank, n.adapter_compute,
                                   {Dim::Batch, Dim::Seq, Dim::Rank, Dim::Count});
  in_adapter_dtype(t, t.gemm({own, directions}, {rotated}, N, l.rank, l.out));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LinearRef& of = *s.linear;
        const std::int64_t rows = tape.at(s.ids[kFactorInput]).elements / of.out;
        // through both products to the parameter of the reflections, over the fixed matrix
        in_adapter_dtype(tape,
                         tape.gemm({tape.grad(s.ids[kFactorOutput]), s.ids[kFactorInput]}, {}, of.out, of.rank, rows));
        tape.gemm({s.ids[kFactorOwn]}, {}, 2 * of.out, of.rank, of.out).kernels = 3 * kKernelsOfProduct;
        const LocalId dx = tape.new_grad(s.ids[kFactorInput]);
        in_adapter_dtype(tape,
                         tape.gemm({tape.grad(s.ids[kFactorOutput]), s.ids[kFactorOwn]}, {dx}, rows, of.out, of.rank));
        tape.add_grad(s.ids[kFactorInput], dx);
      },
      {own, directions, rotated}, &l);
  const LocalId source = times_factor<WeightUse::LowRankA, true>(t, l, own, own, "learned source");
  const LocalId change = t.tensor("change along the directions", N * l.rank, n.adapter_compute, t.at(source).dims);
  t.memory_op(OpKind::Add, {source, rotated}, {change}, total_bytes(t, {source, rotated, change}));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        for (const LocalId id : {s.ids[0], s.ids[1]}) tape.set_grad(id, tape.grad(s.ids[2]));
      },
      {source, rotated, change});
  return times_factor<WeightUse::LowRankB, true>(t, l, change, change, "change of the output");
}

}  // namespace

LocalId output_change(Tape& t, const LinearRef& l, LocalId base) {
  return t.c.recipe.lora.kind->path == AdapterPath::Bottleneck ? bottleneck(t, l, base) : intervention(t, l, base);
}

LocalId product_of_factors(Tape& t, const LinearRef& l, LocalId x, LocalId own) {
  LocalId mid = times_factor<WeightUse::LowRankA, false>(t, l, x, own, "low-rank activation");
  if (t.c.recipe.lora.kind->path == AdapterPath::ScaledRank)
    mid = convert(t, scaled(t, l, mid, "low-rank activation, scaled"), t.c.numerics.adapter_compute, "input of B");
  const LocalId up = times_factor<WeightUse::LowRankB, false>(t, l, mid, mid, "adapter output");
  return elementwise(t, up, "scaled adapter output", OpKind::Scale, false);
}

/// y - P f(P)^T y + P R x: f(P), and R times its scale, are made and kept.
LocalId projected_output(Tape& t, const LinearRef& l, LocalId x, LocalId own, LocalId base) {
  const LocalId wide = output_in_adapter_dtype(t, base);
  const LocalId made = t.tensor("factors of a projection", l.rank * (l.in + l.out), t.c.numerics.adapter_compute,
                                {Dim::Count, Dim::Count, Dim::Count, Dim::Count});
  t.memory_op(OpKind::Scale, {}, {made}, 2 * total_bytes(t, {made})).kernels = 2;
  t.explain_saved(made, "factors of a projection: gradients of what they multiply");
  t.then_backward([](Tape& tape, const Tape::Step& s) { tape.memory_op(OpKind::Scale, {s.ids[0]}, {}, 0); }, {made});
  const LocalId along = times_factor<WeightUse::LowRankA, true>(t, l, wide, wide, "output along the directions");
  const LocalId removed = times_factor<WeightUse::LowRankB, false>(t, l, along, along, "what is taken away");
  const LocalId low = times_factor<WeightUse::LowRankA, false>(t, l, x, own, "low-rank activation");
  const LocalId up = times_factor<WeightUse::LowRankB, false>(t, l, low, low, "adapter output");
  const LocalId y = summed(t, l, summed(t, l, wide, removed), up);
  return convert(t, y, t.at(base).dtype, l.name);
}

}  // namespace gpuplan
