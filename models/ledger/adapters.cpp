// Adapters of other kinds than low-rank ones around a linear: what changes its input, and what changes its output. Each
// is made of products and scalings whose backward reads what PEFT's modules keep.
// Sources: in the rows of data/adapters.yaml.
#include "models/adapter_kind.h"

#include <algorithm>

#include "models/ledger/linear_parts.h"

namespace gpuplan {
namespace {

constexpr std::array kCounts{Dim::Count, Dim::Count, Dim::Count, Dim::Count};

AdapterPath path_of(const Tape& t) { return t.c.recipe.lora.kind->path; }

double bytes(Tape& t, std::initializer_list<LocalId> ids) {
  double sum = 0;
  for (const LocalId id : ids)
    if (id != kNoLocal) sum += double(t.at(id).bytes().count);
  return sum;
}

LocalId narrow_tensor(Tape& t, const char* name, std::int64_t elements) {
  return t.tensor(name, elements, t.c.numerics.adapter_compute, {Dim::Batch, Dim::Seq, Dim::Rank, Dim::Count});
}

Dtype wider(Dtype a, Dtype b) { return size_of(a) < size_of(b) ? b : a; }

// A trained vector: y = x v. Products of 16 and 32 bits are of 32, and x is kept for the vector's gradient.

enum : std::size_t { kScaleX, kScaleY };

void scaled_backward(Tape& t, const Tape::Step& s) {
  const LocalId x = s.ids[kScaleX], dy = t.grad(s.ids[kScaleY]);
  const std::int64_t elements = t.at(x).elements;
  const LocalId products = t.scratch("products of a vector's gradient", elements, t.at(dy).dtype);
  LayerOp& o = t.memory_op(OpKind::Scale, {dy, x}, {products}, bytes(t, {dy, x, products, products}));
  o.kernels = 2;  // the product and its sum over the tokens
  o.is_weight_gradient = true;
  o.weight = s.linear->weight;
  const LocalId dx = t.tensor("gradient of what a vector scales", elements, t.at(x).dtype, t.at(x).dims);
  t.memory_op(OpKind::Scale, {dy}, {dx}, bytes(t, {dy, dx}));
  t.add_grad(x, dx);
}

}  // namespace

LocalId scaled(Tape& t, const LinearRef& l, LocalId x, const char* name) {
  const LocalId y = t.tensor(name, t.at(x).elements, wider(t.at(x).dtype, t.c.numerics.adapter), t.at(x).dims);
  t.memory_op(OpKind::Scale, {x}, {y}, bytes(t, {x, y}));
  t.explain_saved(x, "what an adapter's vector scales: its gradient");
  t.then_backward(scaled_backward, {x, y}, &l);
  return y;
}

namespace {

// The sum of the base output and what the adapter adds.

void added_backward(Tape& t, const Tape::Step& s) {
  const LocalId dy = t.grad(s.ids[2]);
  t.set_grad(s.ids[0], t.cast(dy, t.at(s.ids[0]).dtype, "gradient of the base output"));
  t.set_grad(s.ids[1], t.cast(dy, t.at(s.ids[1]).dtype, "gradient of the adapter's output"));
}

LocalId added(Tape& t, const LinearRef& l, LocalId base, LocalId part) {
  const Local like = t.at(base);
  const LocalId y = t.tensor(l.name, like.elements, wider(like.dtype, t.at(part).dtype), like.dims, like.kind);
  t.memory_op(OpKind::Add, {base, part}, {y}, bytes(t, {base, part, y}));
  t.then_backward(added_backward, {base, part, y});
  return convert(t, y, like.dtype, l.name);
}

// BEFT: a trained vector is added. Its gradient is that of the sum, over the tokens.

LocalId shifted(Tape& t, const LinearRef& l, LocalId base) {
  const Local like = t.at(base);
  const LocalId y = t.tensor(l.name, like.elements, wider(like.dtype, t.c.numerics.adapter), like.dims, like.kind);
  t.memory_op(OpKind::Add, {base}, {y}, bytes(t, {base, y}));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dy = tape.grad(s.ids[1]);
        LayerOp& o = tape.memory_op(OpKind::Add, {dy}, {}, bytes(tape, {dy}));
        o.is_weight_gradient = true;
        o.weight = s.linear->weight;
        tape.set_grad(s.ids[0], tape.cast(dy, tape.at(s.ids[0]).dtype, "gradient of the base output"));
      },
      {base, y}, &l);
  return convert(t, y, like.dtype, l.name);
}

// RoAd: pairs of outputs are turned and stretched, y = x cos + J x sin. Both x and J x are kept, in the adapters'
// dtype.

LocalId turned(Tape& t, const LinearRef& l, LocalId base) {
  const LocalId wide = convert(t, base, wider(t.at(base).dtype, t.c.numerics.adapter), "output that is turned");
  const std::int64_t elements = t.at(wide).elements;
  const LocalId across = copied(t, wide, "output turned by a right angle", elements, elements);
  const LocalId y = added(t, l, scaled(t, l, wide, "output, scaled"), scaled(t, l, across, "turned output, scaled"));
  return convert(t, y, t.at(base).dtype, l.name);
}

// VeRA: frozen factors that all linears share, each followed by a vector. Under autocast both are cast at every use,
// and the cast is kept for the input's gradient, as only trained leaves are cached.

}  // namespace

LocalId usable_factor(Tape& t, const char* name, std::int64_t elements) {
  const DtypePolicy& n = t.c.numerics;
  if (n.adapter == n.adapter_compute) return kNoLocal;
  const LocalId factor = t.tensor(name, elements, n.adapter_compute, kCounts);
  t.memory_op(OpKind::Cast, {}, {factor}, double(bytes_of(elements, n.adapter).count) + bytes(t, {factor}));
  t.explain_saved(factor, "frozen factor of adapters: gradient of its input");
  return factor;
}

namespace {

enum : std::size_t { kDownX, kDownFactor, kDownY };

void down_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const LocalId x = s.ids[kDownX];
  const std::int64_t N = t.at(x).elements / l.in;
  const LocalId dx = t.tensor("adapter input gradient", N * l.in, t.c.numerics.adapter_compute, t.at(x).dims);
  in_adapter_dtype(t, t.gemm({t.grad(s.ids[kDownY]), s.ids[kDownFactor]}, {dx}, N, l.in, l.rank));
  t.add_grad(x, t.cast(dx, t.at(x).dtype, "adapter input gradient, cast"));
}

void up_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const LocalId mid = s.ids[kDownX];
  const std::int64_t N = t.at(mid).elements / l.rank;
  const LocalId dmid = t.tensor("low-rank gradient", N * l.rank, t.c.numerics.adapter_compute, t.at(mid).dims);
  in_adapter_dtype(t, t.gemm({t.grad(s.ids[kDownY]), s.ids[kDownFactor]}, {dmid}, N, l.rank, l.out));
  t.add_grad(mid, dmid);
}

LocalId shared_factors(Tape& t, const LinearRef& l, LocalId x, LocalId own, LocalId base) {
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t N = t.at(x).elements / l.in;
  const LocalId a = usable_factor(t, "shared A", l.rank * l.in);
  const LocalId low = narrow_tensor(t, "low-rank activation", N * l.rank);
  in_adapter_dtype(t, t.gemm({own, a}, {low}, N, l.rank, l.in));
  t.then_backward(down_backward, {x, a, low}, &l);
  const LocalId mid = convert(t, scaled(t, l, low, "low-rank activation, scaled"), n.adapter_compute, "input of B");
  const LocalId b = usable_factor(t, "shared B", l.rank * l.out);
  const LocalId up = t.tensor("adapter output", N * l.out, n.adapter_compute, t.at(base).dims);
  in_adapter_dtype(t, t.gemm({mid, b}, {up}, N, l.out, l.rank));
  t.then_backward(up_backward, {mid, b, up}, &l);
  return added(t, l, base, scaled(t, l, up, "adapter output, scaled"));
}

// MiSS: blocks of the input are summed, and the sum is multiplied by the one matrix that is trained.

enum : std::size_t { kSumX, kSum, kSumY };

void block_sum_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const DtypePolicy& n = t.c.numerics;
  const LocalId x = s.ids[kSumX], sum = s.ids[kSum], dy = t.grad(s.ids[kSumY]);
  const std::int64_t N = t.at(x).elements / l.in;
  in_adapter_dtype(t, weight_gradient(t, {dy, sum}, N, l.rank, l.out, l.weight, n.adapter != n.adapter_compute,
                                      n.adapter, WeightUse::LowRankA));
  const LocalId dsum = narrow_tensor(t, "gradient of the sum of blocks", N * l.rank);
  in_adapter_dtype(t, t.gemm({dy}, {dsum}, N, l.rank, l.out));
  const LocalId dx = t.tensor("adapter input gradient", N * l.in, t.at(x).dtype, t.at(x).dims);
  t.memory_op(OpKind::Copy, {dsum}, {dx}, bytes(t, {dsum, dx}));  // each block gets the same
  t.add_grad(x, dx);
}

LocalId block_sum(Tape& t, const LinearRef& l, LocalId x, LocalId own, LocalId base) {
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t N = t.at(x).elements / l.in;
  const LocalId sum = narrow_tensor(t, "sum of the input's blocks", N * l.rank);
  t.memory_op(OpKind::Add, {own}, {sum}, bytes(t, {own, sum}));
  t.explain_saved(sum, "sum of the input's blocks: gradient of the adapter");
  const LocalId up = t.tensor("adapter output", N * l.out, n.adapter_compute, t.at(base).dims);
  in_adapter_dtype(t, t.gemm({sum}, {up}, N, l.out, l.rank));
  t.then_backward(block_sum_backward, {x, sum, up}, &l);
  return added(t, l, base, up);
}

// LoHa, LoKr and their kin: a second weight of the linear's size, made in every forward pass and kept for the input's
// gradient.

enum : std::size_t { kDeltaX, kDeltaOwn, kDelta, kDeltaY, kDeltaParts };

Dtype delta_dtype(const Tape& t) {
  return t.c.recipe.lora.kind->is_in_base_dtype ? t.c.numerics.compute : t.c.numerics.adapter_compute;
}

void in_delta_dtype(const Tape& t, LayerOp& o) {
  if (!t.c.recipe.lora.kind->is_in_base_dtype) in_adapter_dtype(t, o);
}

/// Keeps what backward reads of what the weight is made of: shapes of the kind's row, and the base's weight where it is
/// cast to the adapters' dtype, or from there.
LocalId delta_parts(Tape& t, const LinearRef& l) {
  const AdapterKind& kind = *t.c.recipe.lora.kind;
  const DtypePolicy& n = t.c.numerics;
  const bool is_copied = n.frozen != n.adapter || n.adapter != n.adapter_compute;
  std::int64_t elements = kind.is_of_base && is_copied ? l.copies * l.in * l.out : 0;
  for (const AdapterShape& shape : kind.kept)
    elements += side_length(shape[0], adapted(t, l)) * side_length(shape[1], adapted(t, l));
  if (elements == 0) return kNoLocal;
  const LocalId kept = t.tensor("what the adapter's weight is made of", elements, n.adapter_compute, kCounts);
  t.memory_op(OpKind::Cast, {}, {kept}, 2 * bytes(t, {kept}));
  t.explain_saved(kept, "what the adapter's weight is made of: gradients of its parameters");
  return kept;
}

void delta_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const DtypePolicy& n = t.c.numerics;
  const LocalId x = s.ids[kDeltaX], dy = t.grad(s.ids[kDeltaY]);
  const std::int64_t N = t.at(x).elements / l.in, elements = l.copies * l.in * l.out;
  const AdapterKind& kind = *t.c.recipe.lora.kind;
  const Dtype made_in = delta_dtype(t);
  const LocalId ddelta = t.scratch("gradient of the adapter's weight", elements, made_in);
  LayerOp& o = t.gemm({dy, s.ids[kDeltaOwn]}, {ddelta}, l.out, l.in, N);
  o.layout = GemmLayout::WeightGradient;
  in_delta_dtype(t, o);
  const std::int64_t num_parts = std::max<std::int64_t>(2, kind.parts);
  const LocalId parts = t.scratch("parts of the adapter's weight again", num_parts * elements, n.adapter_compute);
  LayerOp& split = t.memory_op(OpKind::Multiply, {ddelta, s.ids[kDeltaParts]}, {parts},
                               2 * bytes(t, {ddelta}) + bytes(t, {parts, s.ids[kDeltaParts]}));
  split.kernels = 3;  // scaled, and times the other part; of a Kronecker product, times one factor and summed
  if (kind.products == 0) {
    split.is_weight_gradient = true;
    split.weight = l.weight;
  }
  for (std::int64_t i = 0; i < kind.products; ++i) {
    in_adapter_dtype(t, t.gemm({parts}, {}, l.copies * l.out, l.in, l.rank));
    for (const WeightUse use : {WeightUse::LowRankA, WeightUse::LowRankB})
      in_adapter_dtype(
          t, weight_gradient(t, {parts}, use == WeightUse::LowRankA ? l.out : l.in,
                             use == WeightUse::LowRankA ? l.in : l.rank, use == WeightUse::LowRankA ? l.rank : l.out,
                             l.weight, false, n.adapter, use));
  }
  const LocalId dx = t.tensor("adapter input gradient", N * l.in, made_in, t.at(x).dims);
  in_delta_dtype(t, t.gemm({dy, s.ids[kDelta]}, {dx}, N, l.in, l.out));
  t.add_grad(x, t.cast(dx, t.at(x).dtype, "adapter input gradient, cast"));
}

LocalId delta_output(Tape& t, const LinearRef& l, LocalId x, LocalId own, LocalId base) {
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t N = t.at(x).elements / l.in, elements = l.copies * l.in * l.out;
  const AdapterKind& kind = *t.c.recipe.lora.kind;
  const std::int64_t num_parts = std::max({std::int64_t(1), kind.products, kind.parts});  // scaled after it is made
  if (kind.is_in_base_dtype) own = t.cast(x, n.compute, "input of the adapter's weight");
  const LocalId made_of = delta_parts(t, l);
  const LocalId parts = t.scratch("parts of the adapter's weight", num_parts * elements, n.adapter_compute);
  for (std::int64_t i = 0; i < kind.products; ++i)
    in_adapter_dtype(t, t.gemm({made_of}, {parts}, l.copies * l.out, l.in, l.rank));
  const LocalId delta = t.tensor("the adapter's weight", elements, delta_dtype(t), kCounts);
  t.memory_op(OpKind::Multiply, {parts}, {delta}, 2 * bytes(t, {parts}) + bytes(t, {delta})).kernels = 2;
  t.explain_saved(delta, "the adapter's weight: gradient of its input");
  t.explain_saved(own, "input of the adapter's weight: its gradient");
  const LocalId up = t.tensor("adapter output", N * l.out, delta_dtype(t), t.at(base).dims);
  in_delta_dtype(t, t.gemm({own, delta}, {up}, N, l.out, l.in));
  t.then_backward(delta_backward, {x, own, delta, up, made_of}, &l);
  return added(t, l, base, up);
}

// OFT: the input in blocks of b times an orthogonal matrix each, R = I + 2Q + 2Q^2 + 2Q^3 + Q^4 of a skew-symmetric Q
// (Cayley's transform as a series of five terms). Q, Q^2, Q^3 and R, of in x b elements each, are kept for backward, as
// is the input.

enum : std::size_t { kRotatedX, kRotatedOwn, kRotation, kRotatedY };

/// dR of each block from the products of gradient and input, then through the series to its parameters; dx = dy R^T.
void rotation_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t N = t.at(s.ids[kRotatedX]).elements / l.in, b = l.block;
  const LocalId dy = t.cast(t.grad(s.ids[kRotatedY]), n.adapter_compute, "gradient of the rotated input");
  const LocalId drotation = t.scratch("gradient of OFT's rotation", l.in * b, n.adapter_compute);
  LayerOp& o = t.gemm({dy, s.ids[kRotatedOwn]}, {drotation}, l.in, b, N);
  o.layout = GemmLayout::WeightGradient;
  in_adapter_dtype(t, o);
  // six products of blocks, [b, b] each, for as many of the series in forward: 2 in b^2 operations
  weight_gradient(t, {drotation, s.ids[kRotation]}, 12 * b / std::max<std::int64_t>(1, b - 1), b * (b - 1) / 2,
                  l.in / b, l.weight, n.adapter != n.adapter_compute, n.adapter, WeightUse::LowRankA);
  const LocalId dx =
      t.tensor("gradient through OFT's rotation", N * l.in, n.adapter_compute, t.at(s.ids[kRotatedX]).dims);
  in_adapter_dtype(t, t.gemm({dy, s.ids[kRotation]}, {dx}, N, l.in, b));
  t.add_grad(s.ids[kRotatedX], t.cast(dx, t.at(s.ids[kRotatedX]).dtype, "gradient through OFT's rotation, cast"));
}

LocalId rotated_input(Tape& t, LocalId x, const LinearRef& l) {
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t N = t.at(x).elements / l.in, b = l.block;
  const LocalId own = adapter_input(t, x, x);
  t.explain_saved(own, "input of OFT's rotation: its gradient");
  constexpr std::int64_t kKept = 4, kProducts = 3;
  const LocalId rotation = t.tensor("OFT's rotation and its powers", kKept * l.in * b, n.adapter_compute, kCounts);
  LayerOp& series = t.gemm({}, {rotation}, l.in, b, kProducts * b);
  series.weight = l.weight;
  series.use = WeightUse::LowRankA;
  t.explain_saved(rotation, "OFT's rotation: gradients of input and parameters");
  const LocalId rotated = t.tensor("rotated input", N * l.in, n.adapter_compute, t.at(x).dims);
  in_adapter_dtype(t, t.gemm({own, rotation}, {rotated}, N, l.in, b));
  const LocalId y = t.cast(rotated, t.at(x).dtype, "rotated input, cast");
  t.then_backward(rotation_backward, {x, own, rotation, y}, &l);
  return y;
}

// BOFT: `factor` block-diagonal orthogonal matrices between permutations, each spread out to [in, in], multiplied to
// one matrix that rotates the input. Permutations are matrices too, cast to the input's dtype in every forward pass and
// kept for the gradient of what they multiply, as is the identity that the product begins with.

enum : std::size_t { kButterflyX, kButterflyIn, kPermutations, kFactors, kButterfly, kButterflyY };

void butterfly_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const Dtype dtype = t.c.numerics.compute;
  const std::int64_t factors = t.at(s.ids[kPermutations]).elements / (l.copies * l.in * l.in) - 1;
  const LocalId x = s.ids[kButterflyX], dy = t.cast(t.grad(s.ids[kButterflyY]), dtype, "gradient of the rotated input");
  const std::int64_t N = t.at(x).elements / l.in;
  const LocalId drotation = t.scratch("gradient of BOFT's rotation", l.in * l.in, dtype);
  t.gemm({dy, s.ids[kButterflyIn]}, {drotation}, l.in, l.in, N).layout = GemmLayout::WeightGradient;
  const LocalId dfactors = t.scratch("gradients of BOFT's factors", 2 * factors * l.in * l.in, dtype);
  // the identity, two products for the gradients of each factor after the first, and two permutations of each
  LayerOp& o = t.gemm({drotation, s.ids[kPermutations], s.ids[kFactors]}, {dfactors}, l.in, l.in,
                      (1 + 2 * (factors - 1) + 2 * factors) * l.in);
  o.is_weight_gradient = true;
  o.weight = l.weight;
  o.use = WeightUse::LowRankA;
  const LocalId dx = t.tensor("gradient through BOFT's rotation", N * l.in, dtype, t.at(x).dims);
  t.gemm({dy, s.ids[kButterfly]}, {dx}, N, l.in, l.in);
  t.add_grad(x, t.cast(dx, t.at(x).dtype, "gradient through BOFT's rotation, cast"));
}

LocalId butterfly_input(Tape& t, LocalId x, const LinearRef& l) {
  const Dtype dtype = t.c.numerics.compute;
  const LoraSpec& lora = t.c.recipe.lora;
  const std::int64_t N = t.at(x).elements / l.in, matrix = l.copies * l.in * l.in;
  const std::int64_t factors = lora.factor > 0 ? lora.factor : lora.kind->factor;
  const LocalId own = t.cast(x, dtype, "input in 16 bit");
  const LocalId permutations = t.tensor("permutations and an identity", (factors + 1) * matrix, dtype, kCounts);
  t.memory_op(OpKind::Cast, {}, {permutations}, bytes(t, {permutations}) + double(factors * matrix * 4));
  t.explain_saved(permutations, "permutations: gradients of the factors between them");
  const LocalId spread = t.scratch("block-diagonal factors", 2 * factors * matrix, Dtype::F32);  // and their casts
  t.memory_op(OpKind::Copy, {}, {spread}, bytes(t, {spread})).kernels = 4;  // the transform, the matrix, its cast
  const LocalId between =
      factors > 1 ? t.tensor("factors of BOFT's rotation", factors * matrix, dtype, kCounts) : kNoLocal;
  t.explain_saved(between, "factors of BOFT's rotation: gradients of each other");
  const LocalId rotation = t.tensor("BOFT's rotation", matrix, dtype, kCounts);
  LayerOp& o = t.gemm({permutations, spread}, {rotation, between}, l.in, l.in, 3 * factors * l.in);
  o.weight = l.weight;
  o.use = WeightUse::LowRankA;
  t.explain_saved(rotation, "BOFT's rotation: gradient of the input");
  t.explain_saved(own, "input of BOFT's rotation: its gradient");
  const LocalId rotated = t.tensor("rotated input", N * l.in, dtype, t.at(x).dims);
  t.gemm({own, rotation}, {rotated}, N, l.in, l.in);
  const LocalId y = t.cast(rotated, t.at(x).dtype, "rotated input, cast");
  t.then_backward(butterfly_backward, {x, own, permutations, between, rotation, y}, &l);
  return y;
}

}  // namespace

bool changes_input(const Tape& t, const LinearRef& l) {
  if (!l.is_adapted || l.merges_adapter) return false;
  const AdapterPath path = path_of(t);
  return path == AdapterPath::Rotation || path == AdapterPath::Butterfly || l.scales_input;
}

LocalId adapted_input(Tape& t, LocalId x, const LinearRef& l) {
  if (!changes_input(t, l)) return x;
  if (l.scales_input)
    return convert(
        t, scaled(t, l, convert(t, x, wider(t.at(x).dtype, t.c.numerics.adapter), "input of a vector"), "scaled input"),
        t.at(x).dtype, "scaled input, cast");
  return path_of(t) == AdapterPath::Rotation ? rotated_input(t, x, l) : butterfly_input(t, x, l);
}

bool changes_output(const Tape& t, const LinearRef& l) {
  const AdapterPath path = path_of(t);
  return l.is_adapted && !l.merges_adapter && path != AdapterPath::LowRank && path != AdapterPath::Rotation &&
         !l.scales_input;
}

LocalId adapted_output(Tape& t, LocalId x, LocalId base, const LinearRef& l) {
  if (!changes_output(t, l)) return base;
  const AdapterPath path = path_of(t);
  switch (path) {
    case AdapterPath::Scale:
    case AdapterPath::Butterfly: return convert(t, scaled(t, l, base, "scaled output"), t.at(base).dtype, l.name);
    case AdapterPath::Shift: return shifted(t, l, base);
    case AdapterPath::Turn: return turned(t, l, base);
    case AdapterPath::Circulant: return added(t, l, base, circulant_output(t, l, x));
    case AdapterPath::Bottleneck:
    case AdapterPath::Intervention: return added(t, l, base, output_change(t, l, base));
    default: break;
  }
  const LocalId own = adapter_input(t, x, x);
  switch (path) {
    case AdapterPath::ScaledRank:
    case AdapterPath::BlockDiagonal: return added(t, l, base, product_of_factors(t, l, x, own));
    case AdapterPath::Factors: return added(t, l, base, factors_output(t, l, x, own));
    case AdapterPath::Projection: return projected_output(t, l, x, own, base);
    case AdapterPath::SharedFactors: return shared_factors(t, l, x, own, base);
    case AdapterPath::Delta: return delta_output(t, l, x, own, base);
    default: return block_sum(t, l, x, own, base);
  }
}

}  // namespace gpuplan
