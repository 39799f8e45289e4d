// Adapters whose two factors are not simply trained: frozen ones, and ones that are made of other parameters in each
// forward pass; and products with circulant blocks. A trained factor keeps its input; one that is made keeps it and is
// kept itself; of a frozen one at most a cast is kept. Sources: in the rows of data/adapters.yaml.
#include <algorithm>

#include "models/adapter_kind.h"
#include "models/ledger/linear_parts.h"

namespace gpuplan {
namespace {

constexpr std::array kFlat{Dim::Count, Dim::Count, Dim::Count, Dim::Count};
constexpr std::array kOfRank{Dim::Batch, Dim::Seq, Dim::Rank, Dim::Count};

double sum_of_bytes(Tape& t, std::initializer_list<LocalId> ids) {
  double sum = 0;
  for (const LocalId id : ids)
    if (id != kNoLocal) sum += double(t.at(id).bytes().count);
  return sum;
}

/// Choosing, weighting and gathering what a factor is made of, and as much in backward.
constexpr int kKernelsOfMaking = 6;

template <bool is_first>
FactorSource source_of(const Tape& t, const LinearRef& l) {
  const FactorSource source = t.c.recipe.lora.kind->factors[is_first ? 0 : 1];
  if (source != FactorSource::MadeIfNarrow) return source;
  return (is_first ? l.in <= l.out : l.out < l.in) ? FactorSource::Made : FactorSource::Frozen;
}

std::int64_t middle_of(const Tape& t, const LinearRef& l) {
  return side_length(t.c.recipe.lora.kind->middle, adapted(t, l));
}

template <bool is_first>
std::int64_t wide_side(const LinearRef& l) {
  return is_first ? l.in : l.out;
}

enum : std::size_t { kFactorX, kFactorCast, kMadeFactor, kFactorY };

template <bool is_first>
void factor_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t middle = middle_of(t, l), in = is_first ? l.in : middle, out = is_first ? middle : l.out;
  const LocalId x = s.ids[kFactorX], own = s.ids[kFactorCast], dy = t.grad(s.ids[kFactorY]);
  const std::int64_t N = t.at(x).elements / in;
  const FactorSource source = source_of<is_first>(t, l);
  const WeightUse use = is_first ? WeightUse::LowRankA : WeightUse::LowRankB;
  if (source == FactorSource::Trained) {
    in_adapter_dtype(
        t, weight_gradient(t, {dy, own}, N, in, out, l.weight, n.adapter != n.adapter_compute, n.adapter, use));
  } else if (source != FactorSource::Frozen) {
    const LocalId dfactor =
        t.scratch("gradient of a factor that is made", t.at(s.ids[kMadeFactor]).elements, n.adapter_compute);
    LayerOp& o = t.gemm({dy, own}, {dfactor}, out, in, N);
    o.layout = GemmLayout::WeightGradient;
    in_adapter_dtype(t, o);
    LayerOp& parts = t.memory_op(OpKind::Scale, {dfactor}, {}, 3 * sum_of_bytes(t, {dfactor}));
    parts.kernels = kKernelsOfMaking;
    parts.is_weight_gradient = true;
    parts.weight = l.weight;
    parts.use = use;
  }
  const LocalId dx = t.tensor("gradient of a factor's input", N * in, n.adapter_compute, t.at(x).dims);
  in_adapter_dtype(t, t.gemm({dy, s.ids[kMadeFactor]}, {dx}, N, in, out));
  t.add_grad(x, t.cast(dx, t.at(x).dtype, "gradient of a factor's input, cast"));
}

/// `own` times A or B; the gradient goes to `x`, of which `own` is a cast.
template <bool is_first>
LocalId times(Tape& t, const LinearRef& l, LocalId x, LocalId own, std::array<Dim, 4> dims) {
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t middle = middle_of(t, l), in = is_first ? l.in : middle, out = is_first ? middle : l.out;
  const std::int64_t N = t.at(own).elements / in;
  const FactorSource source = source_of<is_first>(t, l);
  const bool is_made = source == FactorSource::Made || source == FactorSource::RowMade;
  LocalId factor = kNoLocal;
  if (is_made) {
    const std::int64_t times = source == FactorSource::RowMade ? t.c.recipe.micro_batch : 1;
    factor = t.tensor(is_first ? "A, made of its parameters" : "B, made of its parameters",
                      times * middle * wide_side<is_first>(l), n.adapter_compute, kFlat);
    t.memory_op(OpKind::Multiply, {}, {factor}, 3 * sum_of_bytes(t, {factor})).kernels = kKernelsOfMaking;
    t.explain_saved(factor, "factor that is made of its parameters: gradient of its input");
  } else if (source == FactorSource::Frozen) {
    factor = usable_factor(t, is_first ? "frozen A" : "frozen B", middle * wide_side<is_first>(l));
  }
  if (source != FactorSource::Frozen) t.explain_saved(own, "input of an adapter's factor: its gradient");
  const LocalId y = t.tensor(is_first ? "low-rank activation" : "adapter output", N * out, n.adapter_compute, dims);
  in_adapter_dtype(t, t.gemm({own, factor}, {y}, N, out, in));
  t.then_backward(factor_backward<is_first>, {x, source == FactorSource::Frozen ? kNoLocal : own, factor, y}, &l);
  return y;
}

/// Keeps what backward reads of what a linear's factors are made of.
LocalId kept_parts(Tape& t, const LinearRef& l) {
  std::int64_t elements = 0;
  for (const AdapterShape& shape : t.c.recipe.lora.kind->kept)
    elements += side_length(shape[0], adapted(t, l)) * side_length(shape[1], adapted(t, l));
  if (elements == 0) return kNoLocal;
  const LocalId parts = t.tensor("what an adapter is made of", elements, t.c.numerics.adapter, kFlat);
  t.memory_op(OpKind::Copy, {}, {parts}, 2 * sum_of_bytes(t, {parts}));
  t.explain_saved(parts, "what an adapter is made of: gradients of its parameters");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        tape.memory_op(OpKind::Multiply, {s.ids[0]}, {}, 2 * sum_of_bytes(tape, {s.ids[0]}));
      },
      {parts});
  return parts;
}

/// x (R - I) of a trained matrix R [rank, rank] that is solved for: x and the matrices on the way are kept.
LocalId turned_middle(Tape& t, const LinearRef& l, LocalId x) {
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t N = t.at(x).elements / l.rank, matrix = l.rank * l.rank;
  constexpr std::int64_t kMatrices = 5;  // I - Q, its factors, the solution, and that times each of two vectors
  const LocalId turn = t.tensor("matrices of a rotation", kMatrices * matrix, n.adapter, kFlat);
  t.gemm({}, {turn}, l.rank, l.rank, 2 * l.rank).kernels = 2 * kKernelsOfMaking;
  t.explain_saved(turn, "matrices of a rotation: its gradient");
  t.explain_saved(x, "input of a rotation: its gradient");
  const LocalId turned = t.tensor("rotated activation", 2 * N * l.rank, n.adapter_compute, kOfRank);
  in_adapter_dtype(t, t.gemm({x, turn}, {turned}, N, l.rank, l.rank));
  const LocalId y = t.tensor("what a rotation changes", N * l.rank, n.adapter_compute, kOfRank);
  t.memory_op(OpKind::Add, {turned, x}, {y}, 3 * sum_of_bytes(t, {y}));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LinearRef& of = *s.linear;
        const LocalId from = s.ids[0], dy = tape.grad(s.ids[2]);
        const std::int64_t rows = tape.at(from).elements / of.rank;
        in_adapter_dtype(tape, weight_gradient(tape, {dy, from, s.ids[1]}, rows, of.rank, of.rank, of.weight, false,
                                               tape.c.numerics.adapter));
        tape.gemm({s.ids[1]}, {}, of.rank, of.rank, 4 * of.rank).kernels = 2 * kKernelsOfMaking;
        const LocalId dx = tape.new_grad(from);
        in_adapter_dtype(tape, tape.gemm({dy, s.ids[1]}, {dx}, rows, of.rank, of.rank));
        tape.add_grad(from, dx);
      },
      {x, turn, y}, &l);
  return y;
}

// C3A: x and the kernels [out / b, in / b, b] as complex numbers of 8 bytes, in which a convolution is a product. All
// of it is in 32 bits, whatever the layer computes in.

constexpr int kFloatsOfComplex = 2;   // floats of a complex number
constexpr int kRealProducts = 4;      // … and real products of a complex one
constexpr int kKernelsOfFourier = 6;  // to complex, two transforms, two layouts for the products, back

LayerOp& complex_product(Tape& t, const LinearRef& l, std::int64_t rows, LocalId from, LocalId to) {
  const LocalId spectra = t.scratch("spectra and their layouts", 2 * kFloatsOfComplex * rows * l.in, Dtype::F32);
  t.memory_op(OpKind::Cast, {from}, {spectra}, 3 * sum_of_bytes(t, {spectra})).kernels = kKernelsOfFourier;
  const LocalId products = t.scratch("spectra of outputs", 2 * kFloatsOfComplex * rows * l.out, Dtype::F32);
  LayerOp& o = t.gemm({spectra}, {products}, rows, l.out, kRealProducts * l.in / l.block);
  o.is_fp32 = true;
  o.traffic = sum_of_bytes(t, {spectra, products}) / 2;
  t.memory_op(OpKind::Cast, {products}, {to}, 2 * sum_of_bytes(t, {products, to})).kernels = 2;
  return o;
}

}  // namespace

AdaptedLinear adapted(const Tape& t, const LinearRef& l) {
  const LoraSpec& lora = t.c.recipe.lora;
  return {.in = l.in,
          .out = l.out,
          .rank = l.rank,
          .block = l.block,
          .factor = lora.factor > 0 ? lora.factor : lora.kind->factor};
}

LocalId circulant_output(Tape& t, const LinearRef& l, LocalId x) {
  const LocalId own = t.cast(x, Dtype::F32, "input of circulant blocks");
  const std::int64_t N = t.at(x).elements / l.in;
  const LocalId up = t.tensor("adapter output", N * l.out, Dtype::F32, {Dim::Batch, Dim::Seq, l.out_dim, Dim::Count});
  complex_product(t, l, N, own, up);
  t.explain_saved(own, "input of circulant blocks: their gradient");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LinearRef& of = *s.linear;
        const LocalId from = s.ids[kFactorX];
        const std::int64_t rows = tape.at(from).elements / of.in;
        const LocalId dx = tape.tensor("adapter input gradient", rows * of.in, Dtype::F32, tape.at(from).dims);
        complex_product(tape, of, rows, tape.grad(s.ids[kFactorY]), dx);
        LayerOp& kernels = complex_product(tape, of, rows, s.ids[kFactorCast], kNoLocal);
        kernels.is_weight_gradient = true;
        kernels.weight = of.weight;
        tape.add_grad(from, tape.cast(dx, tape.at(from).dtype, "adapter input gradient, cast"));
      },
      {x, own, kNoLocal, up}, &l);
  return up;
}

LocalId factors_output(Tape& t, const LinearRef& l, LocalId x, LocalId own) {
  kept_parts(t, l);
  LocalId mid = times<true>(t, l, x, own, kOfRank);
  if (t.c.recipe.lora.kind->turns_middle) mid = turned_middle(t, l, mid);
  return times<false>(t, l, mid, mid, t.at(x).dims);
}

}  // namespace gpuplan
