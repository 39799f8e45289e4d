// A gated short convolution. Framework ops around causal_conv1d's kernel keep B, C and x, which are views of the input
// projection, their product, and what is convolved. Source: transformers modeling_lfm2.py (Lfm2ShortConv).
#include "models/ledger/recurrence.h"

namespace gpuplan {
namespace {

/// a times b, of which backward reads both.
LocalId gate_product(Tape& t, LocalId a, LocalId b, const char* name, const char* why) {
  const Local like = t.at(a);
  const LocalId y = t.tensor(name, like.elements, like.dtype, like.dims);
  t.memory_op(OpKind::Multiply, {a, b}, {y}, 3.0 * double(t.at(y).bytes().count));
  t.explain_saved(a, why);
  t.explain_saved(b, why);
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId da = tape.new_grad(s.ids[0]), db = tape.new_grad(s.ids[1]);
        tape.memory_op(OpKind::Multiply, {tape.grad(s.ids[2]), s.ids[0], s.ids[1]}, {da, db},
                       6.0 * double(tape.at(da).bytes().count))
            .kernels = 2;
        tape.add_grad(s.ids[0], da);
        tape.add_grad(s.ids[1], db);
      },
      {a, b, y});
  return y;
}

}  // namespace

LocalId short_convolution(Tape& t, LocalId x) {
  const std::int64_t width = t.c.spec().hidden_size;
  const LocalId projected = linear(t, x, t.c.linear(LinearSlot::MixIn));
  const LocalId b = part(t, projected, "gate B", width, Dim::QWidth),
                c = part(t, projected, "gate C", width, Dim::QWidth);
  const LocalId v = part(t, projected, "x", width, Dim::QWidth);
  const LocalId convolved = convolution(t, gate_product(t, b, v, "B x", "product backward"));
  return linear(t, gate_product(t, c, convolved, "gated convolution", "product backward"),
                t.c.linear(LinearSlot::MixOut));
}

}  // namespace gpuplan
