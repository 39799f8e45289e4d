// What the recurrent mixers have in common.
#include "models/ledger/recurrence.h"

namespace gpuplan {

LayerOp& scan_op(Tape& t, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes, double flops,
                 double traffic, std::uint8_t kernels) {
  LayerOp& o = t.op(OpKind::Scan, reads, writes);
  o.cost = CostClass::Scan;
  o.flops = flops;
  o.traffic = traffic;
  o.kernels = kernels;
  return o;
}

LocalId convolution(Tape& t, LocalId x) {
  const Local like = t.at(x);
  const double bytes = double(like.bytes().count);
  const LocalId y = t.tensor("convolved", like.elements, like.dtype, like.dims);
  t.memory_op(OpKind::Convolution, {x}, {y}, 2 * bytes);
  t.explain_saved(x, "convolution backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Convolution, {tape.grad(s.ids[1]), s.ids[0]}, {dx},
                       3.0 * double(tape.at(dx).bytes().count))
            .is_weight_gradient = tape.c.trains_norms();
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

/// Each rank's tokens come in the two stretches that attention balances, so they are put in order behind the exchange.
/// Source: NVIDIA/Megatron-LM megatron/core/ssm/mamba_context_parallel.py @d98e8a64 (pre_conv_ssm, post_conv_ssm:
/// parts are exchanged, joined and reordered).
LocalId all_positions(Tape& t, LocalId x, const char* name, std::int64_t elements) {
  if (t.c.model.split.context_ways == 1) return x;
  const Local like = t.at(x);
  const LocalId y = t.tensor(name, elements > 0 ? elements : like.elements, like.dtype, like.dims),
                sent = t.scratch("what ranks sent, in their order", t.at(y).elements, like.dtype);
  const double moved = 4.0 * double(t.at(y).bytes().count);
  t.exchange(Exchange::AllToAll, x, sent, Axis::Cp);
  t.memory_op(OpKind::Copy, {sent}, {y}, moved).kernels = 2;
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dy = tape.grad(s.ids[1]), dx = tape.new_grad(s.ids[0]);
        const Local all = tape.at(dy);
        const LocalId own = tape.scratch("gradients in the order of ranks", all.elements, all.dtype);
        tape.memory_op(OpKind::Copy, {dy}, {own}, 4.0 * double(all.bytes().count)).kernels = 2;
        tape.exchange(Exchange::AllToAll, own, dx, Axis::Cp);
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

double recurrence_flops(const ModelSpec& model, Mixer mixer, std::int64_t batch, std::int64_t seq_len) {
  const double tokens = double(batch) * double(seq_len);
  if (has_mamba1(mixer)) return tokens * mamba1_flops(model.mamba1);
  if (has_mamba2(mixer)) return tokens * mamba2_flops(model.mamba2, seq_len);
  if (has_delta_net(mixer)) return tokens * delta_net_flops(model.delta_net, seq_len);
  return 0;
}

}  // namespace gpuplan
