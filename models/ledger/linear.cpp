// A linear with everything a recipe puts around it: autocast copies, dequantisation, adapters, gradients.
// Sources: torch autocast (weights cast once, inputs at every call), peft tuners/lora/layer.py (input cast to the
// adapter's dtype, scaled update added to the base output), bitsandbytes autograd/_functions.py (a 4-bit linear saves
// no input and dequantises again in backward).
#include <algorithm>

#include "base/narrow.h"
#include "models/adapter_kind.h"
#include "models/ledger/fake_quant.h"
#include "models/ledger/linear_parts.h"
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

struct LoraIds {
  LocalId input = kNoLocal, mid = kNoLocal, factor = kNoLocal;  // factor: A where it is made of others
};

/// Grouped products are no op of autocast: they convert their input to the dtype of the experts' weight. Source:
/// huggingface/transformers src/transformers/integrations/moe.py @v5.15.0 (_grouped_mm).
bool is_in_weight_dtype(const Tape& t, const LinearRef& l) {
  const DtypePolicy& n = t.c.numerics;
  return l.copies > 1 && l.product == ExpertProduct::Grouped && !l.is_trained && !l.is_quantised &&
         n.frozen == Dtype::F32 && n.compute != Dtype::F32 && !n.casts_frozen;
}

/// A frozen fp32 weight under autocast, whose cast cache holds trained weights only: its 16-bit copy is made at every
/// use and, where the input needs a gradient, saved by that use.
bool is_cast_from_fp32(const Tape& t, const LinearRef& l) {
  const DtypePolicy& n = t.c.numerics;
  const Dtype stored = l.out_dim == Dim::Vocab ? n.ends : n.frozen;
  return !l.is_trained && !l.is_quantised && stored == Dtype::F32 && n.compute != Dtype::F32 && n.is_autocast &&
         !n.casts_frozen && !is_in_weight_dtype(t, l);
}

/// Says how many experts have rows: at most one per row.
std::int64_t num_used(const LinearRef& l, std::int64_t rows) { return std::min(l.copies, rows); }

}  // namespace

LocalId usable_weight(Tape& t, const LinearRef& l, std::int64_t rows) {
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t used = num_used(l, rows);
  if (l.is_quantised) {
    const std::int64_t at_once = l.product == ExpertProduct::Grouped ? l.copies : 1;
    const LocalId w = t.scratch("dequantised weight", at_once * l.in * l.out, n.compute);
    LayerOp& o = t.op(OpKind::Dequantise, {}, {w});
    o.cost = CostClass::Dequantise;
    const QuantSpec& quant = t.c.recipe.quant;
    const QuantFormat& format = format_of(quant.kind);
    if (quant.kind == BaseQuant::Gptq4) o.cost = CostClass::DequantiseGptq;
    loop_over_experts(o, l, rows, format.unpacking_kernels);
    o.traffic = double(used) * double(quantised_bytes(l.in * l.out, l.out, quant).count) +
                double(used * l.in * l.out * size_of(n.compute));
    o.weight = l.weight;
    o.use = WeightUse::Tensor;
    return w;
  }
  if (!is_cast_from_fp32(t, l)) return kNoLocal;
  const LocalId w = t.scratch("frozen weight in 16 bit", l.in * l.out, n.compute);
  t.memory_op(OpKind::Cast, {}, {w}, 6.0 * double(used * l.in * l.out));
  return w;
}

LayerOp& weight_gradient(Tape& t, std::initializer_list<LocalId> reads, std::int64_t m, std::int64_t in,
                         std::int64_t out, std::uint8_t weight, bool is_cast, Dtype stored, WeightUse use) {
  const LocalId low =
      is_cast && !t.adds_in_place() ? t.scratch("weight gradient in 16 bit", in * out, t.c.numerics.compute) : kNoLocal;
  const LocalId fresh =
      t.c.accumulates && !t.adds_in_place() ? t.scratch("gradient of this micro-batch", in * out, stored) : kNoLocal;
  LayerOp& o = t.gemm(reads, {low, fresh}, out, in, m);
  o.is_weight_gradient = true;
  o.layout = GemmLayout::WeightGradient;
  o.weight = weight;
  o.use = use;
  return o;
}

namespace {

/// Experts are matmuls of their own.
void split_rows(LayerOp& o, const LinearRef& l, std::int64_t rows) {
  o.experts = narrow<std::uint16_t>(std::clamp<std::int64_t>(num_used(l, rows), 1, 0xffff));
}

/// Every expert's weight is read.
void spread(LayerOp& o, const LinearRef& l, std::int64_t rows, Dtype compute) {
  if (l.copies == 1) return;
  split_rows(o, l, rows);
  loop_over_experts(o, l, rows);
  o.traffic += double(size_of(compute)) * double((num_used(l, rows) - 1) * l.in * l.out);
}

/// A product that adds to `sum`, in place.
LayerOp& add_product(Tape& t, LocalId a, LocalId weight, LocalId sum, std::int64_t m, std::int64_t n, std::int64_t k) {
  LayerOp& o = t.gemm({a, weight, sum}, {sum}, m, n, k);
  o.accumulates = true;
  return o;
}

/// Adapters kept in fp32 and multiplied in the compute dtype: a small copy where one is used.
LocalId usable_adapter(Tape& t, const LinearRef& l, WeightUse use) {
  if (!t.c.numerics.casts_adapters) return kNoLocal;
  const std::int64_t elements = l.rank * (use == WeightUse::LowRankA ? l.in : l.out);
  const LocalId w = t.scratch("adapter in 16 bit", elements, t.c.numerics.compute);
  LayerOp& o = t.memory_op(OpKind::Cast, {}, {w}, 6.0 * double(elements));
  o.weight = l.weight;
  o.use = use;
  return w;
}

void mark(LayerOp& o, const LinearRef& l, WeightUse use) {
  o.weight = l.weight;
  o.use = use;
}

/// y += scale (x A^T) B^T: the second product adds to the base output, the scale is its factor.
void in_place_lora_forward(Tape& t, const LinearRef& l, LocalId x, LocalId y, LoraIds& ids) {
  const std::int64_t N = t.at(x).elements / l.in;
  ids.input = x;
  t.explain_saved(x, "input of LoRA A: its weight gradient");
  ids.mid = t.wide("low-rank activation", l.rank, Dim::Rank, t.c.numerics.compute);
  const LocalId a = usable_adapter(t, l, WeightUse::LowRankA);
  mark(t.gemm({x, a}, {ids.mid}, N, l.rank, l.in), l, WeightUse::LowRankA);
  t.explain_saved(ids.mid, "input of LoRA B: its weight gradient");
  const LocalId b = usable_adapter(t, l, WeightUse::LowRankB);
  mark(add_product(t, ids.mid, b, y, N, l.out, l.rank), l, WeightUse::LowRankB);
}

/// dx += dmid A where the base's part is already there, dmid = scale dy B.
void in_place_lora_backward(Tape& t, const LinearRef& l, LocalId x, LocalId dy, const LoraIds& ids) {
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t N = t.at(x).elements / l.in, r = l.rank;
  weight_gradient(t, {dy, ids.mid}, N, r, l.out, l.weight, false, n.adapter, WeightUse::LowRankB);
  const LocalId dmid = t.wide("low-rank gradient", r, Dim::Rank, n.compute);
  const LocalId b = usable_adapter(t, l, WeightUse::LowRankB);
  mark(t.gemm({dy, b}, {dmid}, N, r, l.out), l, WeightUse::LowRankB);
  weight_gradient(t, {dmid, ids.input}, N, l.in, r, l.weight, false, n.adapter, WeightUse::LowRankA);
  const LocalId a = usable_adapter(t, l, WeightUse::LowRankA);
  mark(add_product(t, dmid, a, t.grad(x), N, l.in, r), l, WeightUse::LowRankA);
}

/// fp32 adapters outside autocast are multiplied as they are: peft casts their input, nothing casts them.
void make_fp32(LayerOp& o, Dtype compute) {
  o.is_fp32 = true;
  o.traffic *= double(size_of(Dtype::F32)) / double(size_of(compute));
}

}  // namespace

void in_adapter_dtype(const Tape& t, LayerOp& o) {
  const DtypePolicy& n = t.c.numerics;
  if (n.adapter_compute == Dtype::F32 && n.compute != Dtype::F32) make_fp32(o, n.compute);
}

namespace {

void lora_backward(Tape& t, const LinearRef& l, LocalId x, LocalId dy, const LoraIds& ids) {
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t N = t.at(x).elements / l.in, r = l.rank;
  const bool is_cast = n.adapter != n.adapter_compute;
  dy = t.cast(dy, n.adapter_compute, "output gradient in the adapter's dtype");
  const LocalId scaled = t.tensor("adapter gradient", N * l.out, n.adapter_compute, t.at(dy).dims);
  t.memory_op(OpKind::Scale, {dy}, {scaled}, 2.0 * double(t.at(scaled).bytes().count));
  in_adapter_dtype(t, weight_gradient(t, {scaled, ids.mid}, N, r, l.out, l.weight, is_cast, n.adapter));
  const LocalId dmid = t.wide("low-rank gradient", r, Dim::Rank, n.adapter_compute);
  in_adapter_dtype(t, t.gemm({scaled}, {dmid}, N, r, l.out));
  in_adapter_dtype(t, weight_gradient(t, {dmid, ids.input}, N, l.in, r, l.weight, is_cast, n.adapter));
  const LocalId din = t.tensor("adapter input gradient", N * l.in, n.adapter_compute, t.at(x).dims);
  in_adapter_dtype(t, t.gemm({dmid, ids.factor}, {din}, N, l.in, r));
  const LocalId own = t.cast(din, t.at(x).dtype, "adapter input gradient, cast");
  t.add_grad(x, own);
}

/// A copy of the weight in which single elements are changed, made anew in each pass and kept for the input's gradient,
/// as are the places of those elements.
LocalId changed_weight(Tape& t, const LinearRef& l, Dtype stored) {
  std::int64_t elements = 0;
  for (const AdapterShape& shape : t.c.recipe.lora.kind->kept)
    elements += side_length(shape[0], adapted(t, l)) * side_length(shape[1], adapted(t, l));
  constexpr std::array kNoDims{Dim::Count, Dim::Count, Dim::Count, Dim::Count};
  const LocalId places = t.tensor("places of an adapter's elements", elements, t.c.numerics.adapter, kNoDims);
  t.explain_saved(places, "places of an adapter's elements: their gradient");
  const LocalId changed = t.tensor("weight with its changed elements", l.in * l.out, stored, kNoDims);
  t.memory_op(OpKind::Copy, {}, {changed, places},
              2.0 * double(t.at(changed).bytes().count) + 2.0 * double(t.at(places).bytes().count))
      .kernels = 3;
  t.explain_saved(changed, "input gradient of a weight with changed elements");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        LayerOp& o = tape.memory_op(OpKind::Copy, {s.ids[0]}, {}, 2.0 * double(tape.at(s.ids[0]).bytes().count));
        o.is_weight_gradient = true;
        o.weight = s.linear->weight;
      },
      {places}, &l);
  return changed;
}

/// Stacked experts with adapters are multiplied as weight plus delta: delta = B A of every expert is made anew in each
/// pass, and the sum is kept for the input's gradient. Source: huggingface/peft src/peft/tuners/lora/layer.py @v0.20.0
/// (ParamWrapper).
LocalId merged_weight(Tape& t, const LinearRef& l) {
  const DtypePolicy& n = t.c.numerics;
  const Dtype stored = n.casts_frozen ? n.gather : n.frozen;
  const std::int64_t elements = l.copies * l.in * l.out;
  if (t.c.recipe.lora.kind->path == AdapterPath::OwnWeight) return changed_weight(t, l, stored);
  const LocalId delta = t.scratch("delta of the experts' adapters", elements, stored);
  t.gemm({}, {delta}, l.copies * l.out, l.in, l.rank);
  const LocalId merged =
      t.tensor("experts with their adapters", elements, stored, {Dim::Count, Dim::Count, Dim::Count, Dim::Count});
  t.memory_op(OpKind::Add, {delta}, {merged}, 3.0 * double(t.at(merged).bytes().count));
  t.explain_saved(merged, "input gradient of experts with their adapters");
  return merged;
}

/// The gradient of the sum is the delta's, and gives those of A and B.
void merged_backward(Tape& t, const LinearRef& l, LocalId dy, LocalId input, std::int64_t rows) {
  const DtypePolicy& n = t.c.numerics;
  const LocalId ddelta = t.scratch("gradient of the experts' delta", l.copies * l.in * l.out, n.frozen);
  LayerOp& o = t.gemm({dy, input}, {ddelta}, l.out, l.in, rows);
  o.layout = GemmLayout::WeightGradient;
  split_rows(o, l, rows);
  if (t.c.recipe.lora.kind->path == AdapterPath::OwnWeight) return;  // what is read of it is in changed_weight
  const bool is_cast = n.adapter != n.compute;
  weight_gradient(t, {ddelta}, l.in, l.rank, l.copies * l.out, l.weight, is_cast, n.adapter, WeightUse::LowRankB);
  weight_gradient(t, {ddelta}, l.out, l.in, l.copies * l.rank, l.weight, is_cast, n.adapter, WeightUse::LowRankA);
}

enum : std::size_t { kX, kIn, kY, kLoraIn, kLoraMid, kLast, kCast, kInputRange, kWeightRange, kLoraFactor };

/// A second contribution to the gradient of x is added by the product itself.
void in_place_linear_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const LocalId x = s.ids[kX];
  const std::int64_t N = t.at(x).elements / l.in;
  const LocalId dy = t.grad(s.ids[kY]), w = usable_weight(t, l, N), sum = t.grad(x);
  LayerOp* product = nullptr;
  if (sum == kNoLocal) {
    const LocalId dx = t.new_grad(x);
    product = &t.gemm({dy, w}, {dx}, N, l.in, l.out);
    t.set_grad(x, dx);
  } else {
    product = &add_product(t, dy, w, sum, N, l.in, l.out);
  }
  mark(*product, l, WeightUse::Tensor);
  spread(*product, l, N, t.c.numerics.compute);
  if (l.is_trained)
    split_rows(weight_gradient(t, {dy, s.ids[kIn]}, N, l.in, l.out, l.weight, false, t.c.numerics.weight), l, N);
  if (s.ids[kLoraIn] != kNoLocal) in_place_lora_backward(t, l, x, dy, {s.ids[kLoraIn], s.ids[kLoraMid]});
}

void linear_backward(Tape& t, const Tape::Step& s) {
  const LinearRef& l = *s.linear;
  const DtypePolicy& n = t.c.numerics;
  const LocalId x = s.ids[kX];
  const std::int64_t N = t.at(x).elements / l.in;
  const LocalId dy = t.cast(t.grad(s.ids[kY]), n.compute, "output gradient in 16 bit");
  const LocalId dx_own = t.tensor("input gradient", N * l.in, n.compute, t.at(x).dims, LocalKind::Activation);
  const LocalId w = s.ids[kCast] != kNoLocal ? s.ids[kCast] : usable_weight(t, l, N);
  const bool keeps_input = l.is_quantised && t.c.framework.layers.quantised_keeps_input;
  LayerOp& o = t.gemm({dy, w, keeps_input ? s.ids[kIn] : kNoLocal, s.ids[kLast]}, {dx_own}, N, l.in, l.out);
  o.weight = l.weight;
  spread(o, l, N, n.compute);
  if (is_in_weight_dtype(t, l)) make_fp32(o, n.compute);
  fake_quant_backward(t, dx_own, s.ids[kInputRange]);
  const bool sums = sums_by_itself(t, l);
  if (sums) t.exchange(Exchange::AllReduce, dx_own, dx_own).is_beside = true;
  if (l.is_trained) {
    LayerOp& dw = weight_gradient(t, {dy, s.ids[kIn]}, N, l.in, l.out, l.weight, n.casts_weights, n.weight);
    split_rows(dw, l, N);
    dw.ends_beside = sums;
    fake_quant_backward(t, kNoLocal, s.ids[kWeightRange]);
  }
  const LocalId dx = t.cast(dx_own, t.at(x).dtype, "input gradient, cast");
  if (t.grad(x) == kNoLocal && x == kSlotX) {
    t.memory_op(OpKind::Copy, {dx}, {kSlotDx}, 0);
    t.set_grad(x, kSlotDx);
  } else {
    t.add_grad(x, dx);
  }
  if (l.merges_adapter)
    merged_backward(t, l, dy, s.ids[kIn], N);
  else if (s.ids[kLoraIn] != kNoLocal)
    lora_backward(t, l, x, dy, {s.ids[kLoraIn], s.ids[kLoraMid], s.ids[kLoraFactor]});
}

}  // namespace

LocalId adapter_input(Tape& t, LocalId x, LocalId cast_input) {
  const DtypePolicy& n = t.c.numerics;
  const FrameworkConvention& f = t.c.framework;
  LocalId own = x;
  if (f.layers.low_rank_keeps_input && t.at(cast_input).dtype == n.adapter_compute) {
    own = cast_input;
  } else if (n.adapter != n.adapter_compute && t.at(x).dtype != n.adapter) {
    const LocalId wide = t.cast(x, n.adapter, "adapter input in adapter dtype");  // peft: x.to(lora_A.weight.dtype)
    own = t.cast(wide, n.adapter_compute, "adapter input");                       // autocast: back to 16 bit
  } else if (t.at(x).dtype != n.adapter_compute) {
    own = t.cast(x, n.adapter_compute, "adapter input");
  }
  const double p = t.c.recipe.lora.dropout;
  if (p <= 0) return own;
  const std::int64_t elements = t.at(x).elements;
  const LocalId mask = t.tensor("adapter dropout mask", elements, Dtype::Bool, t.at(x).dims);
  const LocalId dropped = t.tensor("adapter input, dropped", elements, n.adapter_compute, t.at(x).dims);
  t.memory_op(OpKind::Dropout, {own}, {dropped, mask}, 2.0 * double(t.at(dropped).bytes().count));
  t.explain_saved(mask, "mask of the adapter's dropout");
  // the mask is read when the input gradient passes the dropout; a step of its own keeps it until then
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        tape.memory_op(OpKind::Dropout, {s.ids[0]}, {}, double(tape.at(s.ids[0]).elements));
      },
      {mask});
  return dropped;
}

namespace {

/// A times its singular values, made anew in each forward pass and kept for the input's gradient; and how far each
/// factor is from an orthogonal one, which joins the loss. Source: huggingface/peft @v0.20.0
/// src/peft/tuners/adalora/layer.py (SVDLinear), model.py (AdaLoraModel.forward).
LocalId scaled_factor(Tape& t, const LinearRef& l) {
  const DtypePolicy& n = t.c.numerics;
  const LocalId a = t.tensor("A times its singular values", l.rank * l.in, n.adapter_compute,
                             {Dim::Rank, l.in_dim, Dim::Count, Dim::Count});
  t.memory_op(OpKind::Scale, {}, {a}, 2.0 * double(bytes_of(l.rank * l.in, n.adapter).count));
  t.explain_saved(a, "A times its singular values: gradient of its input");
  constexpr int kKernelsOfFactor = 5;  // the product, the identity, their difference, its norm, the sum
  const LocalId square = t.scratch("products of the factors with themselves", 2 * l.rank * l.rank, n.adapter);
  t.gemm({}, {square}, l.rank, l.rank, l.in + l.out).kernels = 2 * kKernelsOfFactor;
  return a;
}

LocalId lora_forward(Tape& t, const LinearRef& l, LocalId x, LocalId cast_input, LocalId base, LoraIds& ids) {
  const DtypePolicy& n = t.c.numerics;
  const std::int64_t N = t.at(x).elements / l.in;
  if (l.is_quantised && t.c.recipe.quant.kind == BaseQuant::Nf4 &&
      !t.c.is_fused) {  // peft tuners/lora/bnb.py: `result = result.clone()`
    const LocalId cloned = t.tensor("base output, cloned", N * l.out, t.at(base).dtype, t.at(base).dims);
    t.memory_op(OpKind::Copy, {base}, {cloned}, 2.0 * double(t.at(base).bytes().count));
    base = cloned;
  }
  ids.input = adapter_input(t, x, cast_input);
  t.explain_saved(ids.input, "input of LoRA A: its weight gradient");
  ids.mid =
      t.tensor("low-rank activation", N * l.rank, n.adapter_compute, {Dim::Batch, Dim::Seq, Dim::Rank, Dim::Count});
  if (t.c.recipe.lora.kind->has_values) ids.factor = scaled_factor(t, l);
  in_adapter_dtype(t, t.gemm({ids.input, ids.factor}, {ids.mid}, N, l.rank, l.in));
  t.explain_saved(ids.mid, "input of LoRA B: its weight gradient");
  const LocalId up = t.tensor("adapter output", N * l.out, n.adapter_compute, t.at(base).dims);
  in_adapter_dtype(t, t.gemm({ids.mid}, {up}, N, l.out, l.rank));
  if (t.c.recipe.lora.is_dora) return dora_output(t, l, x, ids.input, base, up);
  const LocalId scaled = t.tensor("scaled adapter output", N * l.out, n.adapter_compute, t.at(base).dims);
  t.memory_op(OpKind::Scale, {up}, {scaled}, 2.0 * double(t.at(up).bytes().count));
  const Dtype out = t.at(base).dtype;
  const bool is_wide = size_of(n.adapter_compute) > size_of(out);  // the sum is, and is cast back
  const LocalId y = t.tensor(l.name, N * l.out, is_wide ? n.adapter_compute : out, t.at(base).dims, t.at(base).kind);
  t.memory_op(OpKind::Add, {base, scaled}, {y},
              double(t.at(base).bytes().count + t.at(scaled).bytes().count + t.at(y).bytes().count));
  return t.cast(y, out, l.name);
}

}  // namespace

void loop_over_experts(LayerOp& op, const LinearRef& expert, std::int64_t rows, std::int64_t kernels_of_one) {
  const bool is_loop = expert.product == ExpertProduct::Loop || expert.product == ExpertProduct::LoopAll;
  const std::int64_t times = !is_loop                                   ? 1
                             : expert.product == ExpertProduct::LoopAll ? expert.copies
                                                                        : num_used(expert, rows);
  op.kernels = narrow<std::uint32_t>(kernels_of_one * times);
  op.is_in_loop = is_loop && times > 1;
}

namespace {

/// Gives what a 4-bit linear saved in the step before and a loop that keeps its loss has not let go.
LocalId input_of_last_graph(Tape& t, const LinearRef& l, LocalId in) {
  const FrameworkConvention& f = t.c.framework;
  if (!l.is_quantised || !f.layers.quantised_keeps_input || !f.layers.keeps_last_graph) return kNoLocal;
  const Local like = t.at(in);
  // where lengths vary up to the longest, the batch before that one is taken to be half as long
  const std::int64_t elements = t.c.recipe.packing == Packing::Dynamic ? like.elements / 2 : like.elements;
  const LocalId held = t.tensor("input held by the last step's graph", elements, like.dtype, like.dims);
  t.memory_op(OpKind::Copy, {in}, {held}, 0);
  t.explain_saved(held, "the loop keeps its loss until the next one");
  return held;
}

}  // namespace

LocalId linear(Tape& t, LocalId given, const LinearRef& l, LocalKind output_kind, LocalId remade) {
  const DtypePolicy& n = t.c.numerics;
  const LocalId x = adapted_input(t, given, l);
  if (x != given) remade = kNoLocal;
  const std::int64_t N = t.at(x).elements / l.in;
  const LocalId plain = t.cast(x, n.compute, "linear input in 16 bit");
  const FakeQuantised input = fake_quantised_input(t, l, plain), weight = fake_quantised_weight(t, l);
  const LocalId in = input.value;
  if (input.exists()) remade = kNoLocal;
  const LocalId own = weight.exists() ? weight.value : usable_weight(t, l, N),
                w = l.merges_adapter ? merged_weight(t, l) : own;
  const std::array<Dim, 4> dims{Dim::Batch, Dim::Seq, l.out_dim, Dim::Count};
  // bitsandbytes returns its input's dtype (nn/modules.py Linear4bit.forward)
  const bool is_bitsandbytes = l.is_quantised && format_of(t.c.recipe.quant.kind).is_bitsandbytes;
  const bool is_wider = l.out_dim != Dim::Vocab &&
                        (n.hidden != n.compute || (is_bitsandbytes && n.is_autocast && t.at(x).dtype == Dtype::F32));
  const bool is_gathered = gathers_adapters(t, l);
  const bool has_low_rank_path =
      l.is_adapted && !l.merges_adapter && !is_gathered && t.c.recipe.lora.kind->path == AdapterPath::LowRank;
  LocalId y = t.tensor(has_low_rank_path || is_gathered || changes_output(t, l) ? "base output" : l.name, N * l.out,
                       n.compute, dims, output_kind);
  LayerOp& o = t.gemm({in, w}, {y}, N, l.out, l.in);
  mark(o, l, WeightUse::Tensor);
  spread(o, l, N, n.compute);
  if (is_in_weight_dtype(t, l)) make_fp32(o, n.compute);
  o.saves_compute_output = true;
  if (is_wider) y = t.cast(y, Dtype::F32, l.name);
  if ((l.is_trained || l.merges_adapter) && remade == kNoLocal)
    t.explain_saved(in, "input of a trained linear: its weight gradient");
  else if (l.is_quantised && t.c.framework.layers.quantised_keeps_input)
    t.explain_saved(in, "input kept by the 4-bit linear");
  const LocalId last = input_of_last_graph(t, l, in);
  LoraIds lora;
  const LocalId base = y;
  const bool is_plain_adapter =
      t.c.recipe.lora.kind->is_lora() && t.c.recipe.lora.dropout <= 0 && !t.c.recipe.lora.is_dora;
  const bool adds_in_place = t.adds_in_place() && !weight.exists() && in == x && x != kSlotX && !l.merges_adapter &&
                             (!l.is_adapted || is_plain_adapter);
  if (has_low_rank_path && adds_in_place)
    in_place_lora_forward(t, l, x, y, lora);
  else if (has_low_rank_path)
    y = lora_forward(t, l, x, plain, base, lora);
  t.then_backward(adds_in_place ? in_place_linear_backward : linear_backward,
                  {x, remade != kNoLocal ? remade : in, y, lora.input, lora.mid, last,
                   is_cast_from_fp32(t, l) || l.merges_adapter || weight.exists() ? w : kNoLocal, input.range,
                   weight.range, lora.factor},
                  &l);
  y = adapted_output(t, x, y, l);
  if (l.cut == Cut::Row) y = sum_row(t, y);
  return is_gathered ? add_gathered_adapter(t, in, l, y) : y;
}

}  // namespace gpuplan
