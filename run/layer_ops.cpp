#include "run/layer_ops.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "device/products.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

constexpr std::uint16_t kEmbeddingTensor = 0;  // of the embedding unit

const Local& local(const LayerCall& c, LocalId id) { return c.graph.locals[id]; }
Numbers numbers(const LayerCall& c, LocalId id) { return {c.locals[id], local(c, id).dtype}; }
Numbers written(const LayerCall& c, const LayerOp& op, int i) { return numbers(c, op.writes[std::size_t(i)]); }
ConstNumbers read(const LayerCall& c, const LayerOp& op, int i) { return numbers(c, op.reads[std::size_t(i)]); }
std::int64_t elements(const LayerCall& c, LocalId id) { return local(c, id).elements; }
void run(const LayerCall& c, const KernelCall& kernel) { c.device.run(kernel, c.stream); }

float adapter_scale(const LayerCall& c, WeightUse use) {
  return use == WeightUse::LowRankB ? float(c.recipe.lora.alpha / double(c.recipe.lora.rank)) : 1.0F;
}

/// Owner of the tensor that an op of a linear uses: the layer by its number, or the head's matrix.
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
    run(c, kernels::Zero{gradient.data, bytes_of(c.unit.placed(tensor, WeightUse::Tensor).elements(), gradient.dtype)});
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
  if (is_forward) return run(c, kernels::RmsNorm{written(c, op, 0), read(c, op, 0), weight, rows, hidden, epsilon});
  const Numbers gradient = op.is_weight_gradient ? sum_gradient(c, op.weight) : Numbers{};
  const void* const residual = op.accumulates ? read(c, op, 2).data : nullptr;
  run(c, kernels::RmsNormBackward{.dx = written(c, op, 0),
                                  .residual = residual,
                                  .weight_gradient = gradient,
                                  .dy = read(c, op, 0),
                                  .x = read(c, op, 1),
                                  .weight = weight,
                                  .rows = rows,
                                  .hidden = hidden,
                                  .epsilon = epsilon});
}

void rope(const LayerCall& c, const LayerOp& op, bool is_backward) {
  const ModelSpec& m = c.model.spec;
  const RotaryTurn turn{.batch = c.recipe.rows(),
                        .seq = c.recipe.seq_len,
                        .heads = elements(c, op.writes[0]) / c.recipe.tokens() / m.head_dim,
                        .head_size = m.head_dim,
                        .rotary = m.rotary_dims(),
                        .cosine = c.constants.cosine,
                        .sine = c.constants.sine,
                        .is_inverse = is_backward};
  run(c, kernels::Rotate{written(c, op, 0), read(c, op, 0), turn});
}

void attention(const LayerCall& c, const LayerOp& op, bool is_backward) {
  const ModelSpec& m = c.model.spec;
  const AttentionShape shape{.batch = c.recipe.rows(),
                             .seq = c.recipe.seq_len,
                             .heads = m.num_attention_heads,
                             .kv_heads = m.num_key_value_heads,
                             .head_size = m.head_dim,
                             .window = op.window,
                             .dtype = local(c, op.writes[0]).dtype};
  const auto in = [&](int i) { return read(c, op, i).data; };
  const auto out = [&](int i) { return written(c, op, i).data; };
  if (!is_backward)
    return run(
        c, kernels::Attention{
               .shape = shape, .q = in(0), .k = in(1), .v = in(2), .out = out(0), .lse = static_cast<float*>(out(1))});
  run(c, kernels::AttentionBackward{.shape = shape,
                                    .dout = in(0),
                                    .q = in(1),
                                    .k = in(2),
                                    .v = in(3),
                                    .out = in(4),
                                    .lse = static_cast<const float*>(in(5)),
                                    .dq = out(0),
                                    .dk = out(1),
                                    .dv = out(2),
                                    .scratch = static_cast<float*>(out(3))});
}

void swiglu(const LayerCall& c, const LayerOp& op, bool) {
  const std::int64_t count = elements(c, op.writes[0]);
  if (op.num_writes == 1) return run(c, kernels::SwiGlu{written(c, op, 0), read(c, op, 0), read(c, op, 1), count});
  run(c, kernels::SwiGluBackward{.dgate = written(c, op, 0),
                                 .dup = written(c, op, 1),
                                 .dout = read(c, op, 0),
                                 .gate = read(c, op, 1),
                                 .up = read(c, op, 2),
                                 .count = count});
}

void add(const LayerCall& c, const LayerOp& op, bool) {
  run(c, kernels::Add{written(c, op, 0), read(c, op, 0), read(c, op, 1), elements(c, op.writes[0])});
}

void copy(const LayerCall& c, const LayerOp& op, bool) {
  c.device.copy(written(c, op, 0).data, read(c, op, 0).data, local(c, op.writes[0]).bytes(), CopyKind::DeviceToDevice,
                c.stream);
}

/// Casts a local, or an adapter where it is used.
void cast(const LayerCall& c, const LayerOp& op, bool) {
  const ConstNumbers from = op.num_reads > 0 ? read(c, op, 0) : c.unit.weight(op.weight, op.use);
  run(c, kernels::Cast{written(c, op, 0), from, elements(c, op.writes[0])});
}

void dequantise(const LayerCall& c, const LayerOp& op, bool) {
  const QuantisedWeight w = c.unit.quantised(op.weight, c.recipe.quant);
  run(c, kernels::Nf4Dequantise{.out = written(c, op, 0),
                                .codes = w.codes,
                                .absmax_codes = w.absmax_codes,
                                .absmax_scales = w.absmax_scales,
                                .absmax_offset = w.absmax_offset,
                                .count = elements(c, op.writes[0])});
}

void embed(const LayerCall& c, const LayerOp& op, bool is_backward) {
  const std::int64_t rows = c.recipe.tokens(), hidden = c.model.spec.hidden_size;
  const std::int64_t first = c.vocab_begin,
                     held = c.unit.placed(kEmbeddingTensor, WeightUse::Tensor).elements() / hidden;
  if (!is_backward)
    return run(c, kernels::Embed{written(c, op, 0), c.unit.weight(kEmbeddingTensor, WeightUse::Tensor), c.batch.ids,
                                 rows, hidden, first, held});
  run(c, kernels::EmbedBackward{sum_gradient(c, kEmbeddingTensor), read(c, op, 0), c.batch.ids, rows, hidden, first,
                                held});
}

float* floats(const LayerCall& c, LocalId id) { return reinterpret_cast<float*>(c.locals[id]); }

void largest_logit(const LayerCall& c, const LayerOp& op, bool) {
  const std::int64_t rows = c.recipe.tokens();
  run(c, kernels::LargestLogit{floats(c, op.writes[0]), read(c, op, 0), rows, elements(c, op.reads[0]) / rows});
}

void label_logit(const LayerCall& c, const LayerOp& op, bool) {
  const std::int64_t rows = c.recipe.tokens();
  run(c, kernels::LabelLogit{.right = floats(c, op.writes[0]),
                             .logits = read(c, op, 0),
                             .labels = c.batch.labels,
                             .rows = rows,
                             .vocab = elements(c, op.reads[0]) / rows,
                             .first = c.vocab_begin});
}

void sum_of_exponentials(const LayerCall& c, const LayerOp& op, bool) {
  const std::int64_t rows = c.recipe.tokens();
  run(c, kernels::SumOfExponentials{.sum = floats(c, op.writes[0]),
                                    .logits = read(c, op, 0),
                                    .largest = floats(c, op.reads[1]),
                                    .rows = rows,
                                    .vocab = elements(c, op.reads[0]) / rows});
}

/// Scores are the numbers that a loss compares; in backward their gradient is what each weighs in it.
void exchange_scores(const LayerCall& c, const LayerOp& op, bool is_backward) {
  const std::int64_t count = elements(c, op.writes[0]);
  GPUPLAN_CHECK(count == c.recipe.tokens(), "a token has one score");
  const Numbers figures{c.batch.losses, Dtype::F32};
  if (is_backward)
    run(c, kernels::Cast{written(c, op, 0), {figures.data, figures.dtype}, count});
  else
    run(c, kernels::Cast{figures, read(c, op, 0), count});
}

/// The backward of a loss that compares answers weighs the rows of what the sum of all losses gave.
void cross_entropy(const LayerCall& c, const LayerOp& op, bool is_backward) {
  if (has_own_head(c.recipe)) return exchange_scores(c, op, is_backward);
  const std::int64_t rows = c.recipe.tokens(), vocab = elements(c, op.writes[0]) / rows;
  if (is_backward) return run(c, kernels::ScaleRows{written(c, op, 0), c.batch.losses, rows, vocab});
  if (op.num_reads > 1)
    run(c, kernels::SharedCrossEntropy{.logits = written(c, op, 0),
                                       .largest = floats(c, op.reads[1]),
                                       .right = floats(c, op.reads[2]),
                                       .sum = floats(c, op.reads[3]),
                                       .labels = c.batch.labels,
                                       .losses = c.batch.losses,
                                       .rows = rows,
                                       .vocab = vocab,
                                       .first = c.vocab_begin,
                                       .whole = c.vocab_size,
                                       .scale = c.constants.loss_scale});
  else
    run(c, kernels::CrossEntropy{.logits = written(c, op, 0),
                                 .labels = c.batch.labels,
                                 .losses = c.batch.losses,
                                 .rows = rows,
                                 .vocab = vocab,
                                 .scale = c.constants.loss_scale});
  if (c.recipe.objective.method.is_usual()) run(c, kernels::AddSum{c.constants.loss_sum, c.batch.losses, rows});
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
                           Row{OpKind::LargestLogit, largest_logit},
                           Row{OpKind::LabelLogit, label_logit},
                           Row{OpKind::SumOfExponentials, sum_of_exponentials},
                           Row{OpKind::CrossEntropy, cross_entropy}};

}  // namespace

void run_layer_op(const LayerCall& call, const LayerOp& op, bool is_backward) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.kind == op.kind; });
  if (row == kRows.end()) throw BugError(fmt::format("the native executor has no {}", to_string(op.kind)));
  row->run(call, op, is_backward);
}

}  // namespace gpuplan
