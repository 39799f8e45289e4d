// Adapters of linears that ranks share, where both factors are cut and their results gathered: of a column, A along the
// rank; of a row, B along the outputs. Source: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/peft/utils.py @v0.6.0
// (ParallelLinearAdapter: linear_in column with gather_output, or row; linear_out column, of a row with gather_output).
#include "base/units.h"
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

enum : std::size_t { kInput, kLowRank, kBase, kOutput };

LocalId narrow_tensor(Tape& t, const char* name, std::int64_t elements, Dim dim) {
  return t.tensor(name, elements, t.c.numerics.adapter_compute, {Dim::Batch, Dim::Seq, dim, Dim::Count});
}

/// x A^T, whole on every rank: of a column each rank makes its ranks of it, of a row its part of the sum.
LocalId low_rank(Tape& t, const LinearRef& l, LocalId x) {
  const std::int64_t ways = t.c.model.split.ways, N = t.at(x).elements / l.in;
  const LocalId mid = narrow_tensor(t, "low-rank activation", N * l.rank, Dim::Rank);
  if (l.cut == Cut::Row) {
    t.gemm({x}, {mid}, N, l.rank, l.in);
    t.exchange(Exchange::AllReduce, mid, mid);
    return mid;
  }
  const LocalId own = narrow_tensor(t, "own part of the low-rank activation", N * ceil_div(l.rank, ways), Dim::Rank);
  t.gemm({x}, {own}, N, ceil_div(l.rank, ways), l.in);
  t.exchange(Exchange::AllGather, own, mid);
  return mid;
}

/// Outputs of a row that this rank makes.
std::int64_t own_outputs(const Tape& t, const LinearRef& l) {
  return l.cut == Cut::Row ? ceil_div(l.out, t.c.model.split.ways) : l.out;
}

/// The gradient of B's output on this rank: a row's was gathered, and scattered along the sequence.
LocalId own_output_gradient(Tape& t, const LinearRef& l, LocalId dy, std::int64_t N) {
  if (l.cut == Cut::Column) return dy;
  if (t.c.model.split.splits_sequence) {
    const LocalId all = narrow_tensor(t, "adapter gradient of all tokens", N * l.out, l.out_dim);
    t.exchange(Exchange::AllGather, dy, all);
    dy = all;
  }
  const LocalId own = narrow_tensor(t, "own part of the adapter gradient", N * own_outputs(t, l), l.out_dim);
  t.memory_op(OpKind::Copy, {dy}, {own}, 2.0 * double(t.at(own).bytes().count));
  return own;
}

void gathered_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const DtypePolicy& n = t.c.numerics;
  const LocalId x = s.ids[kInput], dy = t.grad(s.ids[kOutput]);
  const std::int64_t N = t.at(x).elements / l.in, out = own_outputs(t, l);
  t.set_grad(s.ids[kBase], dy);
  const LocalId scaled = narrow_tensor(t, "adapter gradient", t.at(dy).elements, l.out_dim);
  t.memory_op(OpKind::Scale, {dy}, {scaled}, 2.0 * double(t.at(scaled).bytes().count));
  const LocalId own = own_output_gradient(t, l, scaled, N);
  weight_gradient(t, {own, s.ids[kLowRank]}, N, l.rank, out, l.weight, false, n.adapter, WeightUse::LowRankB);
  const LocalId dmid = narrow_tensor(t, "low-rank gradient", N * l.rank, Dim::Rank);
  t.gemm({own}, {dmid}, N, l.rank, out);
  t.exchange(Exchange::AllReduce, dmid, dmid);
  const std::int64_t rank = l.cut == Cut::Row ? l.rank : ceil_div(l.rank, t.c.model.split.ways);
  weight_gradient(t, {dmid, x}, N, l.in, rank, l.weight, false, n.adapter, WeightUse::LowRankA);
  const LocalId dx = t.tensor("adapter input gradient", N * l.in, t.at(x).dtype, t.at(x).dims);
  t.gemm({dmid}, {dx}, N, l.in, rank);
  t.add_grad(x, dx);
}

}  // namespace

bool gathers_adapters(const Tape& t, const LinearRef& l) {
  return l.is_adapted && l.cut != Cut::None && t.c.model.split.ways > 1 &&
         t.c.framework.tensor_parallel.adapters == AdapterSplit::Gathered;
}

LocalId add_gathered_adapter(Tape& t, LocalId x, const LinearRef& l, LocalId base) {
  const std::int64_t N = t.at(x).elements / l.in, out = own_outputs(t, l);
  t.explain_saved(x, "input of LoRA A: its weight gradient");
  const LocalId mid = low_rank(t, l, x);
  t.explain_saved(mid, "input of LoRA B: its weight gradient");
  LocalId up = narrow_tensor(t, "adapter output", N * out, l.out_dim);
  t.gemm({mid}, {up}, N, out, l.rank);
  if (l.cut == Cut::Row) {
    const LocalId whole = narrow_tensor(t, "adapter output, gathered", N * l.out, l.out_dim);
    t.exchange(Exchange::AllGather, up, whole);
    up = whole;
  }
  const Local like = t.at(base);
  const LocalId scaled = narrow_tensor(t, "scaled adapter output", like.elements, l.out_dim);  // of own tokens
  t.memory_op(OpKind::Scale, {up}, {scaled}, 2.0 * double(t.at(scaled).bytes().count));
  const LocalId y = t.tensor(l.name, like.elements, like.dtype, like.dims, like.kind);
  t.memory_op(OpKind::Add, {base, scaled}, {y}, 3.0 * double(t.at(y).bytes().count));
  t.then_backward(gathered_backward, {x, mid, base, y}, &l);
  return y;
}

}  // namespace gpuplan
