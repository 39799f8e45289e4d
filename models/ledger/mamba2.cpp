// A Mamba-2 mixer through mamba_ssm's fused kernel, which transformers uses on GPUs while training: convolution, scan,
// gated norm and output projection are one autograd node that keeps the input projection, the scan's output and the
// norm's statistics, and makes everything else again in backward. Sources: mamba_ssm ops/triton/ssd_combined.py
// (MambaSplitConv1dScanCombinedFn, _mamba_chunk_scan_combined_fwd, _bwd), transformers modeling_granitemoehybrid.py
// (cuda_kernels_forward).
#include <algorithm>

#include "models/ledger/recurrence.h"

namespace gpuplan {
namespace {

enum : std::size_t { kProjected, kScanned, kStats, kMixed, kRemade };

/// The heads of ranks that share a sequence bring the B and C of their group along, once per rank where there are fewer
/// groups. Source: NVIDIA/Megatron-LM megatron/core/ssm/mamba_context_parallel.py @d98e8a64 (group_repeat_count).
Mamba2Spec mamba_of(const Tape& t) {
  Mamba2Spec m = t.c.spec().mamba2;
  if (const std::int64_t ways = t.c.model.split.context_ways; ways > 1) m.num_groups = std::max(m.num_groups, ways);
  return m;
}

/// Elements of all tokens, and of the states between their chunks.
struct MambaSizes {
  std::int64_t tokens, inner, convolved, states, chunk_products, steps;
};

MambaSizes mamba_sizes(const Tape& t) {
  const Mamba2Spec m = mamba_of(t);
  const std::int64_t N = t.tokens(), length = t.c.attention_length();
  const std::int64_t chunks = t.c.attention_batch() * ((length + m.chunk - 1) / m.chunk);
  return {.tokens = N,
          .inner = N * m.inner_width(),
          .convolved = N * m.conv_channels(),
          .states = chunks * m.state_elements(),
          .chunk_products = N * std::min(m.chunk, length) * m.num_groups,
          .steps = 2 * N * m.num_heads};
}

/// FLOPs per token of the products that the kernels are made of, forward and backward.
struct MambaProducts {
  double within_group, within_head, with_state;
};

MambaProducts mamba_products(const Mamba2Spec& m, std::int64_t length) {
  const double chunk = double(std::min(m.chunk, length));
  return {.within_group = 2 * chunk * double(m.bc_width()),                   // C B^T of a chunk, whole
          .within_head = chunk * double(m.inner_width()),                     // its lower half times x
          .with_state = 2 * double(m.state_size) * double(m.inner_width())};  // x B^T, or C times the state
}

struct MambaInputs {
  LocalId convolved, states, steps;
};

/// Convolution, time steps, and the states at the chunks' ends in 16 bit. Forward and again in backward.
MambaInputs make_mamba_inputs(Tape& t, LocalId projected) {
  const MambaSizes z = mamba_sizes(t);
  const Mamba2Spec m = mamba_of(t);
  const Dtype low = t.c.numerics.compute;
  const double b = double(size_of(low)), N = double(z.tokens);
  MambaInputs in;
  in.convolved = t.scratch("x, B and C after the convolution", z.convolved, low);
  t.memory_op(OpKind::Convolution, {projected}, {in.convolved}, 2 * b * double(z.convolved));
  in.steps = t.scratch("time steps and their sums in fp32", z.steps, Dtype::F32);
  t.memory_op(OpKind::Scan, {projected}, {in.steps}, (b / 2 + 4) * double(z.steps));
  const LocalId wide = t.scratch("states of the chunks in fp32", z.states, Dtype::F32);
  scan_op(t, {in.convolved, in.steps}, {wide}, N * mamba_products(m, t.c.attention_length()).with_state,
          b * double(z.convolved) + 4 * double(z.states), 1);
  in.states = t.scratch("states between chunks", z.states, low);
  t.memory_op(OpKind::Scan, {wide, in.steps}, {in.states}, (4 + b) * double(z.states));
  return in;
}

/// silu(z) times the scan's output, normalised per group.
void gated_mamba_norm(Tape& t, LocalId projected, LocalId scanned, LocalId stats, LocalId mixed) {
  t.memory_op(OpKind::Norm, {projected, scanned}, {mixed, stats}, 3.0 * double(t.at(mixed).bytes().count));
}

/// The norm's backward makes its output again, for the weight gradient of the output projection.
void remake_mamba_output(Tape& t, const Tape::Step& s) {
  gated_mamba_norm(t, s.ids[kProjected], s.ids[kScanned], kNoLocal, s.ids[kRemade]);
}

void mamba2_backward(Tape& t, const Tape::Step& s) {
  const MambaSizes z = mamba_sizes(t);
  const Mamba2Spec m = mamba_of(t);
  const MambaProducts p = mamba_products(m, t.c.attention_length());
  const Dtype low = t.c.numerics.compute;
  const double b = double(size_of(low)), N = double(z.tokens), inner = double(z.inner), states = double(z.states),
               products = 4 * double(z.chunk_products);
  const LocalId projected = s.ids[kProjected], scanned = s.ids[kScanned];
  const LocalId dprojected = t.new_grad(projected);
  const LocalId dscanned = t.scratch("gradient of the scan's output", z.inner, low);
  t.memory_op(OpKind::Norm, {t.grad(s.ids[kMixed]), scanned, projected, s.ids[kStats]}, {dscanned, dprojected},
              5 * b * inner)
      .is_weight_gradient = t.c.trains_norms();
  const MambaInputs in = make_mamba_inputs(t, projected);
  const LocalId wide = t.scratch("gradients of the states in fp32", z.states, Dtype::F32);
  scan_op(t, {in.convolved, in.steps, dscanned}, {wide}, N * p.with_state, b * inner + 4 * states, 1);
  const LocalId dstates = t.scratch("gradients of the states", z.states, low);
  t.memory_op(OpKind::Scan, {wide, in.states, in.steps}, {dstates}, (4 + 3 * b) * states);
  const LocalId dconvolved = t.scratch("gradient of x, B and C", z.convolved, low);
  const LocalId chunk = t.scratch("products of chunks and their gradients in fp32", 2 * z.chunk_products, Dtype::F32);
  // C B^T again and its two gradients; of x, within and through the state, of B, of C; of the decay, within
  scan_op(t, {in.convolved, in.steps, in.states, dstates, dscanned}, {dconvolved, chunk},
          N * (3 * p.within_group + 3 * p.within_head + 3 * p.with_state),
          8 * b * inner + 3 * b * states + 6 * products, 8);
  t.memory_op(OpKind::Convolution, {projected, dconvolved}, {dprojected}, 5 * b * double(z.convolved))
      .is_weight_gradient = t.c.trains_norms();
  t.add_grad(projected, dprojected);
}

/// Megatron runs convolution, scan and gate as one kernel, the norm and the output projection behind it. Ranks that
/// share sequences have all positions of some heads in the kernel, and all heads of some positions behind it.
bool is_kernel_alone(const Tape& t) {
  return t.c.framework.layers.mamba_output_apart || t.c.model.split.context_ways > 1;
}

/// Norm, gate and output projection in the kernel's node.
LocalId gated_inside(Tape& t, LocalId projected, LocalId scanned) {
  const Mamba2Spec m = mamba_of(t);
  const Dtype low = t.c.numerics.compute;
  const LocalId mixed = t.wide("gated output, normalised", m.inner_width(), Dim::QWidth, low);
  const LocalId stats =
      m.has_norm ? t.wide("statistics of the norm", m.num_groups, Dim::KvHeads, Dtype::F32) : kNoLocal;
  gated_mamba_norm(t, projected, scanned, stats, mixed);
  t.explain_saved(projected, "Mamba-2 backward");
  t.explain_saved(scanned, "Mamba-2 backward");
  t.explain_saved(stats, "Mamba-2 backward");
  const LinearRef& out = t.c.linear(LinearSlot::MixOut);
  const LocalId remade =
      out.is_trained ? t.wide("gated output, made again", m.inner_width(), Dim::QWidth, low) : kNoLocal;
  t.then_backward(mamba2_backward, {projected, scanned, stats, mixed});
  const LocalId y = linear(t, mixed, out, LocalKind::Activation, remade);
  if (remade != kNoLocal) t.then_backward(remake_mamba_output, {projected, scanned, stats, mixed, remade});
  return y;
}

/// A norm per group of heads, which keeps its input. Source: mamba_ssm ops/triton/layernorm_gated.py (LayerNormFn).
LocalId norm_of_groups(Tape& t, LocalId x) {
  const Local like = t.at(x);
  const double bytes = double(like.bytes().count);
  const LocalId y = t.tensor("gated output, normalised", like.elements, like.dtype, like.dims),
                stats = t.wide("statistics of the norm", t.c.spec().mamba2.num_groups, Dim::KvHeads, Dtype::F32);
  t.memory_op(OpKind::Norm, {x}, {y, stats}, 2 * bytes);
  t.explain_saved(x, "norm backward");
  t.explain_saved(stats, "norm backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Norm, {tape.grad(s.ids[1]), s.ids[0], s.ids[2]}, {dx},
                       3.0 * double(tape.at(dx).bytes().count))
            .is_weight_gradient = tape.c.trains_norms();
        tape.add_grad(s.ids[0], dx);
      },
      {x, y, stats});
  return y;
}

/// Source: NVIDIA/Megatron-LM megatron/core/ssm/mamba_mixer.py @d98e8a64 (_ssm_training:
/// mamba_split_conv1d_scan_combined without a norm and without an output projection).
LocalId gated_apart(Tape& t, LocalId projected, LocalId scanned) {
  const LocalId gated = t.wide("gated output", mamba_of(t).inner_width(), Dim::QWidth, t.c.numerics.compute);
  gated_mamba_norm(t, projected, scanned, kNoLocal, gated);
  t.explain_saved(projected, "Mamba-2 backward");
  t.explain_saved(scanned, "Mamba-2 backward");
  t.then_backward(mamba2_backward, {projected, scanned, kNoLocal, gated});
  const LocalId all_heads = all_positions(t, gated, "gated output of all heads");
  return linear(t, t.c.spec().mamba2.has_norm ? norm_of_groups(t, all_heads) : all_heads,
                t.c.linear(LinearSlot::MixOut));
}

}  // namespace

double mamba2_flops(const Mamba2Spec& m, std::int64_t seq_len) {
  const MambaProducts p = mamba_products(m, seq_len);
  return p.within_group + p.within_head + 2 * p.with_state;
}

LocalId mamba2(Tape& t, LocalId x) {
  const MambaSizes z = mamba_sizes(t);
  const Mamba2Spec m = mamba_of(t);
  const Dtype low = t.c.numerics.compute;
  const double b = double(size_of(low));
  const LinearRef& mix_in = t.c.linear(LinearSlot::MixIn);
  const ColumnInput entered = enter_columns(t, x, mix_in);
  const LocalId whole = linear(t, entered.value, mix_in, LocalKind::Activation, entered.again);
  leave_columns(t, x, entered);
  const LocalId projected = all_positions(t, convert(t, whole, low, "z, x, B, C and time steps in 16 bit"),
                                          "z, x, B, C and time steps of some heads", z.tokens * m.projected_width());
  const MambaInputs in = make_mamba_inputs(t, projected);
  const LocalId scanned = t.wide("output of the scan", m.inner_width(), Dim::QWidth, low);
  const LocalId chunk = t.scratch("products of chunks in fp32", z.chunk_products, Dtype::F32);
  const MambaProducts p = mamba_products(m, t.c.attention_length());
  scan_op(t, {in.convolved, in.states, in.steps}, {chunk, scanned},
          double(z.tokens) * (p.within_group + p.within_head + p.with_state),
          b * double(z.convolved + z.inner + z.states) + 8 * double(z.chunk_products), 2);
  return is_kernel_alone(t) ? gated_apart(t, projected, scanned) : gated_inside(t, projected, scanned);
}

}  // namespace gpuplan
