// The first Mamba's mixer through mamba_ssm's fused kernel, which transformers uses on GPUs while training:
// convolution, projections, scan, gate and output projection are one autograd node that keeps a contiguous copy of its
// input, the projected time steps, B and C, the scan's output and its states every 2048 tokens, and makes everything
// else again in backward. Falcon-Mamba's norms of B, C and the time steps are inside it too, without weights. Sources:
// mamba_ssm ops/selective_scan_interface.py (MambaInnerFn), csrc/selective_scan; transformers modeling_mamba.py
// (cuda_kernels_forward).
#include <algorithm>

#include "models/ledger/recurrence.h"

namespace gpuplan {
namespace {

enum : std::size_t { kXz, kSelection, kSelectionParts, kKeptStates, kScan, kGated, kGatedAgain };

constexpr std::int64_t kTokensBetweenStates = 2048;  // tokens between states that are kept

LocalId convolve(Tape& t, LocalId projected) {
  const std::int64_t inner = t.tokens() * t.c.spec().mamba1.inner_width;
  const LocalId y = t.scratch("x after the convolution", inner, t.c.numerics.compute);
  t.memory_op(OpKind::Convolution, {projected}, {y}, 2.0 * double(t.at(y).bytes().count));
  return y;
}

LocalId time_steps(Tape& t, LocalId selected) {
  const Mamba1Spec& m = t.c.spec().mamba1;
  const LocalId y = t.scratch("time steps", t.tokens() * m.inner_width, t.c.numerics.compute);
  t.gemm({selected}, {y}, t.tokens(), m.inner_width, m.time_rank);
  return y;
}

/// A kernel that reads and writes `tensors` of the inner width and passes over the sequence so often.
LayerOp& selective_scan(Tape& t, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes,
                        double tensors, double passes) {
  const Mamba1Spec& m = t.c.spec().mamba1;
  const double inner = double(t.tokens() * m.inner_width);
  return scan_op(t, reads, writes, passes * mamba1_flops(m) * double(t.tokens()),
                 tensors * inner * double(size_of(t.c.numerics.compute)), 1);
}

/// The kernel of backward makes the gated output again, for the weight gradient of the output projection.
void remake_mamba1_output(Tape& t, const Tape::Step& s) {
  t.memory_op(OpKind::Multiply, {s.ids[kXz], s.ids[kScan]}, {s.ids[kGatedAgain]},
              3.0 * double(t.at(s.ids[kGatedAgain]).bytes().count));
}

void mamba1_backward(Tape& t, const Tape::Step& s) {
  const Mamba1Spec& m = t.c.spec().mamba1;
  const std::int64_t N = t.tokens(), inner = N * m.inner_width;
  const Dtype low = t.c.numerics.compute;
  const LocalId projected = s.ids[kXz], selected = s.ids[kSelection];
  const LocalId dprojected = t.new_grad(projected);
  const LocalId convolved = convolve(t, projected), steps = time_steps(t, selected);
  const LocalId dconvolved = t.scratch("gradient of x", inner, low),
                dsteps = t.scratch("gradient of the time steps", inner, low);
  const LocalId dgroups = t.scratch("gradients of B and C in fp32", 2 * N * m.state_size, Dtype::F32);
  // reads x, time steps, z, the scan's output and its gradient; writes three gradients
  selective_scan(t, {t.grad(s.ids[kGated]), convolved, steps, s.ids[kSelectionParts], s.ids[kKeptStates], s.ids[kScan]},
                 {dconvolved, dsteps, dgroups, dprojected}, 8, 3);
  const LocalId dselected = t.scratch("gradient of time steps of low rank, B and C", N * m.selected_width(), low);
  t.gemm({dsteps, dgroups}, {dselected}, N, m.time_rank, m.inner_width);
  t.gemm({dselected, dconvolved}, {dconvolved}, N, m.inner_width, m.selected_width());
  if (t.c.trains_norms()) {
    t.gemm({dsteps, selected}, {}, m.inner_width, m.time_rank, N).is_weight_gradient = true;
    t.gemm({dselected, convolved}, {}, m.selected_width(), m.inner_width, N).is_weight_gradient = true;
  }
  t.memory_op(OpKind::Convolution, {projected, dconvolved}, {dprojected}, 4.0 * double(t.at(dconvolved).bytes().count))
      .is_weight_gradient = t.c.trains_norms();
  t.add_grad(projected, dprojected);
}

/// The kernel wants every channel's tokens side by side.
LocalId by_channel(Tape& t, LocalId x) {
  return copied(t, x, "x and z, channel by channel", t.at(x).elements, t.at(x).elements);
}

// With norms between its parts, it is linears, norms and kernels one after the other: the scan wants contiguous copies
// of what is transposed, and keeps them, its output before the gate and its states. Sources: transformers
// modeling_jamba.py (cuda_kernels_forward); mamba_ssm ops/selective_scan_interface.py (SelectiveScanFn).

enum : std::size_t { kScanX, kScanSteps, kScanZ, kScanGroups, kScanStates, kScanRaw, kScanOut };

void scan_backward(Tape& t, const Tape::Step& s) {
  const Mamba1Spec& m = t.c.spec().mamba1;
  const LocalId dx = t.new_grad(s.ids[kScanX]), dsteps = t.new_grad(s.ids[kScanSteps]), dz = t.new_grad(s.ids[kScanZ]);
  const LocalId dgroups = t.scratch("gradients of B and C in fp32", 2 * t.tokens() * m.state_size, Dtype::F32);
  selective_scan(
      t,
      {t.grad(s.ids[kScanOut]), s.ids[kScanX], s.ids[kScanSteps], s.ids[kScanZ], s.ids[kScanStates], s.ids[kScanRaw]},
      {dx, dsteps, dz, dgroups}, 8, 3);
  const LocalId low = t.new_grad(s.ids[kScanGroups]);
  t.memory_op(OpKind::Cast, {dgroups}, {low}, 3.0 * double(t.at(low).bytes().count));
  t.add_grad(s.ids[kScanX], dx);
  t.add_grad(s.ids[kScanSteps], dsteps);
  t.add_grad(s.ids[kScanZ], dz);
  t.add_grad(s.ids[kScanGroups], low);
}

/// A part of what x_proj makes, normed. B and C stand side by side, as their two norms are of one width.
LocalId normed_parts(Tape& t, LocalId selected, const char* name, std::int64_t width) {
  return norm(t, part(t, selected, name, width, Dim::Rank), name);
}

std::int64_t kept_states(const Tape& t) {
  const std::int64_t length = t.c.attention_length();
  const std::int64_t stretches = t.c.attention_batch() * ((length + kTokensBetweenStates - 1) / kTokensBetweenStates);
  return 2 * stretches * t.c.spec().mamba1.state_elements();
}

LocalId mamba1_with_norms(Tape& t, LocalId x) {
  const Mamba1Spec& m = t.c.spec().mamba1;
  const Dtype low = t.c.numerics.compute;
  const std::int64_t inner = t.tokens() * m.inner_width;
  const LocalId projected = convert(t, linear(t, x, t.c.linear(LinearSlot::MixIn)), low, "x and z in 16 bit");
  const LocalId z = part(t, projected, "z, contiguous", m.inner_width, Dim::QWidth);
  const LocalId convolved = convolution(t, part(t, projected, "x", m.inner_width, Dim::QWidth));
  const LocalId selected = linear(t, convolved, t.c.linear(LinearSlot::MixBeta));
  const LocalId narrow_steps = normed_parts(t, selected, "time steps of low rank", m.time_rank);
  const LocalId groups = normed_parts(t, selected, "B and C", 2 * m.state_size);
  const LocalId steps = convert(t, linear(t, narrow_steps, t.c.linear(LinearSlot::MixDecay)), low, "time steps");
  const LocalId u = copied(t, convolved, "x, contiguous", inner, inner),
                dt = copied(t, steps, "time steps, contiguous", inner, inner);
  const LocalId states =
      t.tensor("states that are kept", kept_states(t), Dtype::F32, {Dim::Batch, Dim::QWidth, Dim::Chunk, Dim::Count});
  const LocalId scanned = t.wide("output of the scan", m.inner_width, Dim::QWidth, low);
  const LocalId mixed = t.wide("gated output", m.inner_width, Dim::QWidth, low);
  selective_scan(t, {u, dt, z, groups}, {states, scanned, mixed}, 5, 1);
  for (const LocalId id : {u, dt, z, groups, states, scanned}) t.explain_saved(id, "Mamba backward");
  t.then_backward(scan_backward, {u, dt, z, groups, states, scanned, mixed});
  return linear(t, mixed, t.c.linear(LinearSlot::MixOut));
}

}  // namespace

/// Per channel and state: decay and input of the state, and its share of the output, a product and a sum each.
double mamba1_flops(const Mamba1Spec& m) { return 6 * double(m.state_elements()); }

LocalId mamba1(Tape& t, LocalId x) {
  const Mamba1Spec& m = t.c.spec().mamba1;
  if (m.has_norms) return mamba1_with_norms(t, x);
  const std::int64_t N = t.tokens();
  const Dtype low = t.c.numerics.compute;
  const LocalId projected =
      by_channel(t, convert(t, linear(t, x, t.c.linear(LinearSlot::MixIn)), low, "x and z in 16 bit"));
  const LocalId convolved = convolve(t, projected);
  const LocalId selected = t.wide("time steps of low rank, B and C", m.selected_width(), Dim::Rank, low);
  t.gemm({convolved}, {selected}, N, m.selected_width(), m.inner_width);
  const LocalId groups = t.wide("B and C, each of its own", 2 * m.state_size, Dim::KvWidth, low);
  t.memory_op(OpKind::Copy, {selected}, {groups}, 2.0 * double(t.at(groups).bytes().count));
  const LocalId steps = time_steps(t, selected);
  const LocalId states =
      t.tensor("states that are kept", kept_states(t), Dtype::F32, {Dim::Batch, Dim::QWidth, Dim::Chunk, Dim::Count});
  const LocalId scanned = t.wide("output of the scan", m.inner_width, Dim::QWidth, low);
  const LocalId mixed = t.wide("gated output", m.inner_width, Dim::QWidth, low);
  selective_scan(t, {convolved, steps, groups, projected}, {states, scanned, mixed}, 5, 1);
  for (const LocalId id : {projected, selected, groups, states, scanned}) t.explain_saved(id, "Mamba backward");
  const LinearRef& out = t.c.linear(LinearSlot::MixOut);
  const LocalId remade =
      out.is_trained ? t.wide("gated output, made again", m.inner_width, Dim::QWidth, low) : kNoLocal;
  t.then_backward(mamba1_backward, {projected, selected, groups, states, scanned, mixed});
  const LocalId y = linear(t, mixed, out, LocalKind::Activation, remade);
  if (remade != kNoLocal)
    t.then_backward(remake_mamba1_output, {projected, selected, groups, states, scanned, mixed, remade});
  return y;
}

}  // namespace gpuplan
