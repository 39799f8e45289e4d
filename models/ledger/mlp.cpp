// Gated MLPs (SwiGLU, GeGLU) and plain ones. Framework ops keep gate, activation and up; a fused kernel keeps gate and up.
// GPT-2's gelu_new is written out in Python and keeps its intermediates. Sources: transformers modeling_llama.py,
// modeling_phi3.py, activations.py (NewGELUActivation); Liger swiglu.py.
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

enum : std::size_t { kGate, kUp, kAct, kOut, kExtra };

void fused_backward(Tape& t, const Tape::Step& s) {
  const LocalId dgate = t.new_grad(s.ids[kGate]);
  const bool is_one = s.ids[kUp] == s.ids[kGate];
  const LocalId dup = is_one ? kNoLocal : t.new_grad(s.ids[kUp]);
  t.memory_op(OpKind::SwiGlu, {t.grad(s.ids[kOut]), s.ids[kGate], s.ids[kUp]}, {dgate, dup},
              2.0 * 3.0 * double(t.at(s.ids[kOut]).bytes().count));
  t.add_grad(s.ids[kGate], dgate);
  if (!is_one) t.add_grad(s.ids[kUp], dup);
}

void multiply_backward(Tape& t, const Tape::Step& s) {
  const LocalId dout = t.grad(s.ids[kOut]);
  const double bytes = double(t.at(s.ids[kOut]).bytes().count);
  const LocalId dact = t.new_grad(s.ids[kAct]);
  if (s.ids[kUp] == s.ids[kGate]) {  // halves of one buffer: its gradient is written by both parents
    const LocalId dboth = t.new_grad(s.ids[kGate]);
    t.memory_op(OpKind::Multiply, {dout, s.ids[kAct], s.ids[kUp]}, {dact, dboth}, 3.0 * bytes).kernels = 3;
    t.add_grad(s.ids[kGate], dboth);
  } else {
    const LocalId dup = t.new_grad(s.ids[kUp]);
    t.memory_op(OpKind::Multiply, {dout, s.ids[kAct], s.ids[kUp]}, {dact, dup}, 3.0 * bytes).kernels = 2;
    t.add_grad(s.ids[kUp], dup);
  }
  t.add_grad(s.ids[kAct], dact);
}

void activation_backward(Tape& t, const Tape::Step& s) {
  const LocalId gate = s.ids[kGate], current = t.grad(gate);
  const LocalId dgate = current == kNoLocal ? t.new_grad(gate) : current;  // in place into the other half's buffer
  t.memory_op(OpKind::Activation, {t.grad(s.ids[kAct]), gate, s.ids[kExtra]}, {dgate},
              3.0 * double(t.at(s.ids[kAct]).bytes().count));
  if (current == kNoLocal) t.add_grad(gate, dgate);
}

LocalId gated(Tape& t, LocalId gate, LocalId up, std::int64_t width) {
  const Dtype dtype = t.at(gate).dtype;
  if (t.c.is_fused) {
    const LocalId out = t.wide("product", width, Dim::Ffn, dtype);
    t.memory_op(OpKind::SwiGlu, {gate, up}, {out}, 3.0 * double(t.at(out).bytes().count));
    t.saves(gate, "SwiGLU backward");
    t.saves(up, "SwiGLU backward");
    t.then_backward(fused_backward, {gate, up, kNoLocal, out});
    return out;
  }
  const LocalId act = t.wide("activated gate", width, Dim::Ffn, dtype);
  const double bytes = double(t.at(act).bytes().count);
  t.memory_op(OpKind::Activation, {gate}, {act}, 1.0 * bytes);
  t.saves(gate, "activation backward");
  t.then_backward(activation_backward, {gate, kNoLocal, act, kNoLocal, kNoLocal});
  const LocalId out = t.wide("product", width, Dim::Ffn, dtype);
  t.memory_op(OpKind::Multiply, {act, up}, {out}, 2.0 * bytes);
  t.saves(act, "product backward");
  t.saves(up, "product backward");
  t.then_backward(multiply_backward, {gate, up, act, out});
  return out;
}

LocalId plain_activation(Tape& t, LocalId x, std::int64_t width) {
  const Dtype dtype = t.at(x).dtype;
  const LocalId act = t.wide("activation output", width, Dim::Ffn, dtype);
  const bool is_written_out = t.c.model.spec.activation == "gelu_new" && !t.c.is_fused;
  const LocalId extra = is_written_out ? t.wide("gelu_new intermediates", 3 * width, Dim::Ffn, dtype) : kNoLocal;
  LayerOp& o = t.memory_op(OpKind::Activation, {x}, {act, extra},
                           (is_written_out ? 8.0 : 2.0) * double(t.at(act).bytes().count));
  o.kernels = is_written_out ? 8 : 1;
  t.saves(x, "activation backward");
  t.saves(extra, "gelu_new backward: tanh, its factors");
  t.then_backward(activation_backward, {x, kNoLocal, act, kNoLocal, extra});
  return act;
}

}  // namespace

LocalId mlp(Tape& t, LocalId x) {
  const TrainedModel& m = t.c.model;
  const std::int64_t width = m.spec.intermediate_size;
  LocalId inner = kNoLocal;
  if (m.gate_up.exists()) {
    const LocalId both = linear(t, x, m.gate_up);
    inner = gated(t, both, both, width);
  } else if (m.gate.exists()) {
    const LocalId gate = linear(t, x, m.gate);
    inner = gated(t, gate, linear(t, x, m.up), width);
  } else {
    inner = plain_activation(t, linear(t, x, m.up), width);
  }
  return linear(t, inner, m.down);
}

}  // namespace gpuplan
