#include "run/layer_ops.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "device/biased_gemm.h"

namespace gpuplan {
namespace {

constexpr std::uint16_t kEmbeddingTensor = 0;  // of the embedding unit

const Local& local(const LayerCall& c, LocalId id) { return c.graph.locals[id]; }
Numbers numbers(const LayerCall& c, LocalId id) { return {c.locals[id], local(c, id).dtype}; }
Numbers written(const LayerCall& c, const LayerOp& op, int i) { return numbers(c, op.writes[std::size_t(i)]); }
ConstNumbers read(const LayerCall& c, const LayerOp& op, int i) { return numbers(c, op.reads[std::size_t(i)]); }
std::int64_t elements(const LayerCall& c, LocalId id) { return local(c, id).elements; }

float adapter_scale(const LayerCall& c, WeightUse use) {
  return use == WeightUse::LowRankB ? float(c.recipe.lora.alpha / double(c.recipe.lora.rank)) : 1.0F;
}

/// Whose tensor an op of a linear uses: the layer's by its number, or the head's matrix.
struct WeightOwner {
  const UnitView& view;
  std::uint16_t tensor;
};
WeightOwner owner(const LayerCall& c, const LayerOp& op) {
  if (op.weight == 0xff) return {c.head, c.head_tensor};
  return {c.unit, op.weight};
}

GemmType gemm_type(Dtype dtype) { return dtype == Dtype::F32 ? GemmType::F32 : GemmType::BF16; }

std::uint8_t bias_of(const LayerCall& c, const LayerOp& op) {
  if (!c.linears || op.use != WeightUse::Tensor) return 0xff;
  for (const LinearRef& l : c.linears->by_slot)
    if (l.exists() && l.weight == op.weight) return l.bias;
  return 0xff;
}

/// A gradient that a kernel adds to: zeroed before its first use.
Numbers sum_gradient(const LayerCall& c, std::uint16_t tensor) {
  const Numbers gradient = c.unit.gradient_of(tensor, WeightUse::Tensor);
  if (!c.unit.take_written(tensor, WeightUse::Tensor))
    c.kernels.zero(gradient.data, bytes_of(c.unit.placed(tensor, WeightUse::Tensor).elements(), gradient.dtype),
                   c.stream);
  return gradient;
}

void weight_gradient(const LayerCall& c, const LayerOp& op) {
  const auto [view, tensor] = owner(c, op);
  const ConstNumbers dy = read(c, op, 0), x = read(c, op, 1);
  const Numbers to = view.gradient_of(tensor, op.use);
  const GemmProblem problem{.m = op.m,
                            .n = op.n,
                            .k = op.k,
                            .type = gemm_type(dy.dtype),
                            .layout = GemmLayout::WeightGradient,
                            .output = to.dtype,
                            .accumulates = view.take_written(tensor, op.use),
                            .alpha = adapter_scale(c, op.use)};
  const std::uint8_t bias = bias_of(c, op);
  if (bias == 0xff) return c.device.gemm(problem, dy.data, x.data, to.data, c.stream);
  const bool is_added = c.unit.take_written(bias, WeightUse::Tensor);
  GPUPLAN_CHECK(is_added == problem.accumulates, "a weight and its bias get their gradients together");
  gemm_and_bias_gradient(c.device, problem, dy.data, x.data, to.data, c.unit.gradient_of(bias, WeightUse::Tensor),
                         c.stream);
}

void linear(const LayerCall& c, const LayerOp& op, bool) {
  if (op.is_weight_gradient) return weight_gradient(c, op);
  const auto [view, tensor] = owner(c, op);
  const bool has_own_copy = op.num_reads - (op.accumulates ? 1 : 0) == 2;  // dequantised or cast for this product
  const ConstNumbers a = read(c, op, 0), b = has_own_copy ? read(c, op, 1) : view.weight(tensor, op.use);
  const Numbers to = written(c, op, 0);
  GPUPLAN_CHECK(a.dtype == b.dtype, "a product of two number formats");
  const GemmProblem problem{.m = op.m,
                            .n = op.n,
                            .k = op.k,
                            .type = gemm_type(a.dtype),
                            .layout = op.layout,
                            .output = to.dtype,
                            .accumulates = op.accumulates,
                            .alpha = adapter_scale(c, op.use)};
  const std::uint8_t bias = op.layout == GemmLayout::Forward ? bias_of(c, op) : 0xff;
  if (bias == 0xff) return c.device.gemm(problem, a.data, b.data, to.data, c.stream);
  gemm_and_bias(c.device, problem, a.data, b.data, to.data, c.unit.weight(bias, WeightUse::Tensor), c.stream);
}

void norm(const LayerCall& c, const LayerOp& op, bool) {
  const ConstNumbers weight = c.unit.weight(op.weight, WeightUse::Tensor);
  const std::int64_t hidden = c.unit.placed(op.weight, WeightUse::Tensor).elements(),
                     rows = elements(c, op.writes[0]) / hidden;
  const auto epsilon = float(c.model.spec.norm_epsilon);
  const bool is_forward = op.num_reads == 1;
  if (is_forward)
    return c.kernels.rms_norm_forward(written(c, op, 0), read(c, op, 0), weight, rows, hidden, epsilon, c.stream);
  const Numbers gradient = op.is_weight_gradient ? sum_gradient(c, op.weight) : Numbers{};
  const void* const residual = op.accumulates ? read(c, op, 2).data : nullptr;
  c.kernels.rms_norm_backward(written(c, op, 0), residual, gradient, read(c, op, 0), read(c, op, 1), weight, rows,
                              hidden, epsilon, c.stream);
}

void rope(const LayerCall& c, const LayerOp& op, bool is_backward) {
  const ModelSpec& m = c.model.spec;
  const RotaryTurn rotation{.batch = c.recipe.micro_batch,
                            .seq = c.recipe.seq_len,
                            .heads = elements(c, op.writes[0]) / c.recipe.tokens() / m.head_dim,
                            .head_size = m.head_dim,
                            .rotary = m.rotary_dims(),
                            .cosine = c.constants.cosine,
                            .sine = c.constants.sine,
                            .is_inverse = is_backward};
  c.kernels.rotate(written(c, op, 0), read(c, op, 0), rotation, c.stream);
}

void attention(const LayerCall& c, const LayerOp& op, bool is_backward) {
  const ModelSpec& m = c.model.spec;
  const SequenceAttention shape{.batch = c.recipe.micro_batch,
                                .seq = c.recipe.seq_len,
                                .heads = m.num_attention_heads,
                                .kv_heads = m.num_key_value_heads,
                                .head_size = m.head_dim,
                                .window = op.window,
                                .dtype = local(c, op.writes[0]).dtype};
  const auto in = [&](int i) { return read(c, op, i).data; };
  const auto out = [&](int i) { return written(c, op, i).data; };
  if (!is_backward)
    return c.kernels.attention_forward(shape, in(0), in(1), in(2), out(0), static_cast<float*>(out(1)), c.stream);
  c.kernels.attention_backward(shape, in(0), in(1), in(2), in(3), in(4), static_cast<const float*>(in(5)), out(0),
                               out(1), out(2), static_cast<float*>(out(3)), c.stream);
}

void swiglu(const LayerCall& c, const LayerOp& op, bool) {
  const std::int64_t count = elements(c, op.writes[0]);
  if (op.num_writes == 1)
    return c.kernels.swiglu_forward(written(c, op, 0), read(c, op, 0), read(c, op, 1), count, c.stream);
  c.kernels.swiglu_backward(written(c, op, 0), written(c, op, 1), read(c, op, 0), read(c, op, 1), read(c, op, 2), count,
                            c.stream);
}

void add(const LayerCall& c, const LayerOp& op, bool) {
  c.kernels.add(written(c, op, 0), read(c, op, 0), read(c, op, 1), elements(c, op.writes[0]), c.stream);
}

void copy(const LayerCall& c, const LayerOp& op, bool) {
  c.device.copy(written(c, op, 0).data, read(c, op, 0).data, local(c, op.writes[0]).bytes(), CopyKind::DeviceToDevice,
                c.stream);
}

/// Of a local, or of an adapter where it is used.
void cast(const LayerCall& c, const LayerOp& op, bool) {
  const ConstNumbers from = op.num_reads > 0 ? read(c, op, 0) : c.unit.weight(op.weight, op.use);
  const Numbers to = written(c, op, 0);
  c.device.cast(to.data, to.dtype, from.data, from.dtype, elements(c, op.writes[0]), c.stream);
}

void dequantise(const LayerCall& c, const LayerOp& op, bool) {
  const QuantisedWeight w = c.unit.quantised(op.weight, c.recipe.quant);
  c.kernels.nf4_expand(written(c, op, 0), w.codes, w.absmax_codes, w.absmax_scales, w.absmax_offset,
                       elements(c, op.writes[0]), c.stream);
}

void embed(const LayerCall& c, const LayerOp& op, bool is_backward) {
  const std::int64_t rows = c.recipe.tokens(), hidden = c.model.spec.hidden_size;
  if (!is_backward)
    return c.kernels.embed(written(c, op, 0), c.unit.weight(kEmbeddingTensor, WeightUse::Tensor), c.batch.ids, rows,
                           hidden, c.stream);
  c.kernels.embed_backward(sum_gradient(c, kEmbeddingTensor), read(c, op, 0), c.batch.ids, rows, hidden, c.stream);
}

void cross_entropy(const LayerCall& c, const LayerOp& op, bool) {
  const Numbers logits = written(c, op, 0);
  const std::int64_t rows = c.recipe.tokens();
  c.device.cross_entropy(logits.data, c.batch.labels, c.batch.losses, rows, elements(c, op.writes[0]) / rows,
                         c.constants.loss_scale, logits.dtype, c.stream);
  c.kernels.add_sum(c.constants.loss_sum, c.batch.losses, rows, c.stream);
}

using Run = void (*)(const LayerCall&, const LayerOp&, bool is_backward);
struct Row {
  OpKind kind;
  Run run;
};
constexpr std::array kRows{Row{OpKind::Linear, linear},
                           Row{OpKind::Norm, norm},
                           Row{OpKind::Rope, rope},
                           Row{OpKind::Attention, attention},
                           Row{OpKind::SwiGlu, swiglu},
                           Row{OpKind::Add, add},
                           Row{OpKind::Copy, copy},
                           Row{OpKind::Cast, cast},
                           Row{OpKind::Dequantise, dequantise},
                           Row{OpKind::Embed, embed},
                           Row{OpKind::CrossEntropy, cross_entropy}};

}  // namespace

void run_layer_op(const LayerCall& call, const LayerOp& op, bool is_backward) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.kind == op.kind; });
  if (row == kRows.end()) throw BugError(fmt::format("the native executor has no {}", to_string(op.kind)));
  row->run(call, op, is_backward);
}

}  // namespace gpuplan
