// Gated MLPs (SwiGLU, GeGLU) and plain ones. Framework ops keep gate, activation and up; a fused kernel keeps gate and
// up. GPT-2's gelu_new and Apertus' xIELU are written out in Python and keep their intermediates, the squared ReLU what
// it squares. Sources: transformers modeling_llama.py, modeling_phi3.py, activations.py (NewGELUActivation,
// ReLUSquaredActivation, XIELUActivation); Liger swiglu.py.
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

enum : std::size_t { kGate, kUp, kAct, kMlpOut, kExtra, kChoice };

void fused_backward(Tape& t, const Tape::Step& s) {
  const LocalId dgate = t.new_grad(s.ids[kGate]);
  const bool is_one = s.ids[kUp] == s.ids[kGate];
  const LocalId dup = is_one ? kNoLocal : t.new_grad(s.ids[kUp]);
  t.memory_op(OpKind::SwiGlu, {t.grad(s.ids[kMlpOut]), s.ids[kGate], s.ids[kUp]}, {dgate, dup},
              5.0 * double(t.at(s.ids[kMlpOut]).bytes().count));
  t.add_grad(s.ids[kGate], dgate);
  if (!is_one) t.add_grad(s.ids[kUp], dup);
}

void multiply_backward(Tape& t, const Tape::Step& s) {
  const LocalId dout = t.grad(s.ids[kMlpOut]);
  const double bytes = double(t.at(s.ids[kMlpOut]).bytes().count);
  const LocalId dact = t.new_grad(s.ids[kAct]);
  if (s.ids[kUp] == s.ids[kGate]) {  // halves of one buffer: its gradient is written by both parents
    const LocalId dboth = t.new_grad(s.ids[kGate]);
    t.memory_op(OpKind::Multiply, {dout, s.ids[kAct], s.ids[kUp]}, {dact, dboth}, 8.0 * bytes).kernels = 3;
    t.add_grad(s.ids[kGate], dboth);
  } else {
    const LocalId dup = t.new_grad(s.ids[kUp]);
    t.memory_op(OpKind::Multiply, {dout, s.ids[kAct], s.ids[kUp]}, {dact, dup}, 6.0 * bytes).kernels = 2;
    t.add_grad(s.ids[kUp], dup);
  }
  t.add_grad(s.ids[kAct], dact);
}

void activation_backward(Tape& t, const Tape::Step& s) {
  const LocalId gate = s.ids[kGate], current = t.grad(gate);
  const LocalId dgate = current == kNoLocal ? t.new_grad(gate) : current;  // in place into the other half's buffer
  const std::string& activation = t.c.spec().activation;
  const LocalId saved = activation == "relu2" ? kNoLocal : activation == "relu" ? s.ids[kAct] : gate;
  t.memory_op(OpKind::Activation, {t.grad(s.ids[kAct]), saved, s.ids[kExtra], s.ids[kChoice]}, {dgate},
              (activation == "relu2"   ? 6.0
               : activation == "xielu" ? 20.0
                                       : 3.0) *
                  double(t.at(s.ids[kAct]).bytes().count));
  if (current == kNoLocal) t.add_grad(gate, dgate);
}

/// [rows, width] where the linear before it has `rows`: all tokens, or those sent to experts.
LocalId inner_tensor(Tape& t, const char* name, std::int64_t elements, Dtype dtype) {
  return t.tensor(name, elements, dtype, {Dim::Batch, Dim::Seq, Dim::Ffn, Dim::Count});
}

/// The activation of x, or of its first half where gate and up are one buffer. ReLU's backward needs its output alone;
/// the squared ReLU is two kernels, whose backward both need what is squared; the written-out GELU needs its
/// intermediates too: eight kernels of two or three tensors each. xIELU, where(x > 0, a x x + b x, (expm1(min(x, e)) -
/// x) c + b x), keeps a x, the result of expm1 and the choice, and where a and c are trained the difference too:
/// twelve.
LocalId activate(Tape& t, LocalId x, const char* name, std::int64_t elements) {
  const std::string& activation = t.c.spec().activation;
  const bool is_eager = !t.c.is_mlp_fused && !t.c.framework.layers.has_own_models;
  const bool is_written_out = activation == "gelu_new" && is_eager, is_xielu = activation == "xielu" && is_eager;
  const Dtype dtype = t.at(x).dtype;
  const LocalId act = inner_tensor(t, name, elements, dtype);
  const bool is_squared = activation == "relu2";
  const LocalId extra = is_written_out ? inner_tensor(t, "gelu_new intermediates", 3 * elements, dtype)
                        : is_xielu
                            ? inner_tensor(t, "xIELU intermediates", (t.c.trains_norms() ? 3 : 2) * elements, dtype)
                        : is_squared ? inner_tensor(t, "ReLU output", elements, dtype)
                                     : kNoLocal;
  const LocalId choice = is_xielu ? inner_tensor(t, "sign of x", elements, Dtype::Bool) : kNoLocal;
  const double traffic = is_written_out ? 20 : is_xielu ? 30 : is_squared ? 4 : 2;  // tensors read and written
  LayerOp& o = t.memory_op(OpKind::Activation, {x}, {act, extra, choice}, traffic * double(t.at(act).bytes().count));
  o.kernels = is_written_out ? 8 : is_xielu ? 12 : is_squared ? 2 : 1;
  if (!is_squared) t.explain_saved(activation == "relu" ? act : x, "activation backward");
  t.explain_saved(extra, is_squared ? "squared ReLU backward"
                         : is_xielu ? "xIELU backward"
                                    : "gelu_new backward: tanh, its factors");
  t.explain_saved(choice, "xIELU backward");
  t.then_backward(activation_backward, {x, kNoLocal, act, kNoLocal, extra, choice});
  return act;
}

/// relu(x - (mean + a * std)) along the features: about the largest values, as many as a says. std keeps x for
/// backward. Source: transformers modeling_gemma3n.py (Gemma3nTextMLP._gaussian_topk).
LocalId largest(Tape& t, LocalId x) {
  const Local like = t.at(x);
  const double bytes = double(like.bytes().count);
  const LocalId y = inner_tensor(t, "largest values of the gate", like.elements, like.dtype),
                above = inner_tensor(t, "gate above its cutoff", like.elements, like.dtype);
  t.memory_op(OpKind::Activation, {x}, {above, y}, 7.0 * bytes).kernels = 8;  // mean, std, their sum, minus, relu
  t.explain_saved(x, "std backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Activation, {tape.grad(s.ids[1]), s.ids[0], s.ids[1]}, {dx},
                       16.0 * double(tape.at(dx).bytes().count))
            .kernels = 12;
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

LocalId gated(Tape& t, LocalId gate, LocalId up) {
  const Dtype dtype = t.at(gate).dtype;
  const std::int64_t elements = gate == up ? t.at(gate).elements / 2 : t.at(gate).elements;
  if (t.c.is_mlp_fused) {
    const LocalId out = inner_tensor(t, "product", elements, dtype);
    t.memory_op(OpKind::SwiGlu, {gate, up}, {out}, 3.0 * double(t.at(out).bytes().count));
    t.explain_saved(gate, "SwiGLU backward");
    t.explain_saved(up, "SwiGLU backward");
    t.then_backward(fused_backward, {gate, up, kNoLocal, out});
    return out;
  }
  const LocalId act = activate(t, gate, "activated gate", elements);
  const double bytes = double(t.at(act).bytes().count);
  const LocalId out = inner_tensor(t, "product", elements, dtype);
  t.memory_op(OpKind::Multiply, {act, up}, {out}, 3.0 * bytes);
  t.explain_saved(act, "product backward");
  t.explain_saved(up, "product backward");
  t.then_backward(multiply_backward, {gate, up, act, out});
  return out;
}

}  // namespace

LocalId activated(Tape& t, LocalId x) { return activate(t, x, "activation output", t.at(x).elements); }

LocalId feed_forward(Tape& t, LocalId x, const LinearRef& gate, const LinearRef& up, const LinearRef& gate_up,
                     const LinearRef& down) {
  LocalId inner = kNoLocal;
  const LinearRef& first = gate_up.exists() ? gate_up : up;
  const bool is_cut = first.cut == Cut::Column;
  const ColumnInput in = is_cut ? enter_columns(t, x, first.is_trained, sums_by_itself(t, first)) : ColumnInput{x};
  const auto leave = [&] {
    if (is_cut) leave_columns(t, x, in);
  };
  const auto column = [&](const LinearRef& l) { return linear(t, in.value, l, LocalKind::Activation, in.again); };
  if (gate_up.exists()) {
    const LocalId both = column(gate_up);
    leave();
    inner = gated(t, both, both);
  } else if (gate.exists()) {
    const LocalId whole = column(gate), g = t.c.layer().is_sparse ? largest(t, whole) : whole;
    const LocalId wide = column(up);
    leave();
    inner = gated(t, g, wide);
  } else {
    const LocalId wide = column(up);
    leave();
    inner = activated(t, wide);
  }
  return linear(t, dropout(t, inner, t.c.spec().mlp_dropout), down);
}

LocalId mlp(Tape& t, LocalId x) {
  if (t.c.layer().is_moe) return mixture_of_experts(t, x);
  const auto l = [&](LinearSlot slot) -> const LinearRef& { return t.c.linear(slot); };
  return feed_forward(t, x, l(LinearSlot::Gate), l(LinearSlot::Up), l(LinearSlot::GateUp), l(LinearSlot::Down));
}

}  // namespace gpuplan
