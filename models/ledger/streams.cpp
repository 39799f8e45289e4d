// Several streams side by side (AltUp), of which a layer works on one: the others are predicted from all of them before
// it and corrected by what it changed after it. With a low-rank branch beside attention (LAuReL) and a layer's own part
// of a second embedding, which goes to the streams that the layer does not work on. Source: transformers
// modeling_gemma3n.py (Gemma3nTextDecoderLayer, Gemma3nTextAltUp, Gemma3nTextLaurelBlock).
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

LocalId one_stream(Tape& t, const char* name) {
  return t.wide(name, t.c.spec().hidden_size, Dim::Hidden, t.c.numerics.residual);
}
LocalId all_streams(Tape& t, const char* name) {
  return t.wide(name, t.c.spec().stream_width(), Dim::Hidden, t.c.numerics.residual);
}
double all_bytes(const Tape& t) {
  return double(bytes_of(t.tokens() * t.c.spec().stream_width(), t.c.numerics.residual).count);
}

/// The stream that the layer works on; its gradient comes back with zeros for the others.
LocalId active_of(Tape& t, LocalId streams, const char* name) {
  const LocalId y = one_stream(t, name);
  t.memory_op(OpKind::Copy, {streams}, {y}, 2.0 * double(t.at(y).bytes().count));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId whole = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Copy, {tape.grad(s.ids[1])}, {whole},
                       all_bytes(tape) + 2.0 * double(tape.at(s.ids[1]).bytes().count))
            .kernels = 2;
        tape.add_grad(s.ids[0], whole);
      },
      {streams, y});
  return y;
}

/// Sum of two or three, whose gradients are that of the sum, times a constant that costs a kernel each way.
LocalId sum_of(Tape& t, LocalId a, LocalId b, LocalId c, const char* name) {
  const LocalId y = one_stream(t, name);
  const double bytes = double(t.at(y).bytes().count);
  t.memory_op(OpKind::Add, {a, b, c}, {y}, (c == kNoLocal ? 3.0 : 8.0) * bytes).kernels = c == kNoLocal ? 1 : 3;
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        LocalId dy = tape.grad(s.ids[3]);
        if (s.ids[2] != kNoLocal) {
          const LocalId scaled = one_stream(tape, "gradient of the sum");
          tape.memory_op(OpKind::Scale, {dy}, {scaled}, 2.0 * double(tape.at(scaled).bytes().count));
          dy = scaled;
        }
        for (const LocalId id : {s.ids[0], s.ids[1], s.ids[2]})
          if (id != kNoLocal) tape.add_grad(id, tape.cast(dy, tape.at(id).dtype, "branch gradient"));
      },
      {a, b, c, y});
  return y;
}

/// Says how the streams of a token mix, from the norm of one of them: a router as wide as there are streams, and a
/// Linear.
LocalId coefficients(Tape& t, LocalId x, LinearSlot slot) {
  const LocalId normed = norm(t, x, "normed input of the router");
  const std::int64_t elements = t.at(normed).elements;
  const LocalId scaled = copied(t, normed, "input of the router", elements, elements);
  return linear(t, linear(t, scaled, t.c.linear(LinearSlot::StreamRouter)), t.c.linear(slot));
}

/// Every stream plus a mixture of all: a batched product over a copy with a token's streams side by side.
LocalId predicted(Tape& t) {
  const double bytes = all_bytes(t);
  const LocalId coefs = coefficients(t, active_of(t, kSlotX, "active stream"), LinearSlot::StreamPredict);
  const LocalId rows = all_streams(t, "streams of a token side by side"), mixed = all_streams(t, "mixed streams"),
                y = all_streams(t, "predicted streams");
  t.memory_op(OpKind::Copy, {kSlotX}, {rows}, 2 * bytes);
  t.memory_op(OpKind::BatchedMatmul, {rows, coefs}, {mixed}, 2 * bytes);
  t.memory_op(OpKind::Add, {mixed, kSlotX}, {y}, 5 * bytes).kernels = 2;  // in place, then made contiguous
  t.explain_saved(rows, "backward of the mixture");
  t.explain_saved(coefs, "backward of the mixture");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dy = tape.grad(s.ids[2]), dcoefs = tape.new_grad(s.ids[1]),
                      drows = all_streams(tape, "gradient of the mixture");
        tape.memory_op(OpKind::BatchedMatmul, {dy, s.ids[0], s.ids[1]}, {drows, dcoefs}, 6 * all_bytes(tape)).kernels =
            3;
        tape.add_grad(s.ids[1], dcoefs);
        tape.add_grad(kSlotX, dy);
        tape.add_grad(kSlotX, drows);
      },
      {rows, coefs, y});
  return y;
}

/// Every prediction plus its share of what the layer changed, into the layer's output.
void correct(Tape& t, LocalId predictions, LocalId activated) {
  const double bytes = all_bytes(t);
  const LocalId coefs = coefficients(t, activated, LinearSlot::StreamCorrect);
  const LocalId innovation = all_streams(t, "what the layer changed, for every stream");
  t.memory_op(OpKind::Add, {activated, predictions}, {innovation}, 2 * bytes).kernels = 2;
  t.memory_op(OpKind::Multiply, {innovation, coefs, predictions}, {kSlotY}, 5 * bytes).kernels = 2;
  t.explain_saved(innovation, "product backward");
  t.explain_saved(coefs, "product backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId predicted = s.ids[0], after = s.ids[1], factors = s.ids[2], changed = s.ids[3];
        const double each = all_bytes(tape);
        const LocalId dy = tape.grad(kSlotY), dfactors = tape.new_grad(factors), dafter = tape.new_grad(after),
                      dchanged = all_streams(tape, "gradient of what the layer changed"),
                      products = all_streams(tape, "products of the coefficients' gradient");
        tape.memory_op(OpKind::Multiply, {dy, changed, factors}, {dchanged, products, dfactors}, 6 * each).kernels = 3;
        tape.memory_op(OpKind::Add, {dchanged}, {dafter}, 1.25 * each);
        const LocalId dpredicted = tape.new_grad(predicted);
        tape.memory_op(OpKind::Add, {dy, dafter}, {dpredicted}, 4.25 * each).kernels = 4;
        tape.add_grad(factors, dfactors);
        tape.add_grad(after, dafter);
        tape.add_grad(predicted, dpredicted);
      },
      {predictions, activated, coefs, innovation});
}

/// The layer's part of the second embedding, made from the active stream and added to the others in place; backward
/// clones the gradient before it takes the others' part.
void embed_layer(Tape& t) {
  const LocalId branch = layer_embedding(t, gated_branch(t, active_of(t, kSlotY, "corrected stream")));
  t.memory_op(OpKind::Add, {branch, kSlotY}, {kSlotY}, 2.0 * all_bytes(t));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const double bytes = all_bytes(tape);
        const LocalId clone = all_streams(tape, "gradient of the corrected streams"), dbranch = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Copy, {kSlotDy}, {clone}, 2 * bytes);
        tape.memory_op(OpKind::Add, {clone}, {dbranch}, 2.5 * bytes).kernels = 2;
        tape.add_grad(s.ids[0], dbranch);
        tape.set_grad(kSlotY, clone);
      },
      {branch});
}

}  // namespace

void layer_of_streams(Tape& t) {
  const LocalId predictions = predicted(t), active = active_of(t, predictions, "active prediction");
  const LocalId normed = norm(t, active, "normed input of attention", kNoLocal, NormSlot::Attention);
  const LocalId low =
      linear(t, linear(t, normed, t.c.linear(LinearSlot::BranchDown)), t.c.linear(LinearSlot::BranchUp));
  const LocalId beside = sum_of(t, normed, norm(t, low, "normed low-rank branch"), kNoLocal, "low-rank branch");
  const LocalId attended = norm(t, self_attention(t, normed), "normed attention branch");
  const LocalId middle = sum_of(t, active, attended, beside, "residual after attention");
  const LocalId fed =
      norm(t, mlp(t, norm(t, middle, "normed input of MLP", kNoLocal, NormSlot::Mlp)), "normed MLP branch");
  const LocalId activated = one_stream(t, "residual after MLP");
  residual_add(t, middle, fed, activated);
  correct(t, predictions, activated);
  embed_layer(t);
}

LocalId joined_streams(Tape& t) {
  const ModelSpec& m = t.c.spec();
  const std::int64_t others = (m.altup.num_streams - 1) * m.hidden_size;
  const LocalId projected = t.wide("streams, projected", others, Dim::Hidden, t.c.numerics.residual),
                y = one_stream(t, "mean of the streams");
  t.gemm({kSlotX}, {projected}, t.tokens(), others, m.hidden_size);
  t.memory_op(OpKind::Scale, {projected, kSlotX}, {y}, 9.0 * all_bytes(t)).kernels = 24;  // magnitudes, stack, mean
  t.explain_saved(projected, "backward of the magnitudes");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const ModelSpec& spec = tape.c.spec();
        const std::int64_t width = (spec.altup.num_streams - 1) * spec.hidden_size;
        const LocalId dprojected = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Scale, {tape.grad(s.ids[1]), s.ids[0]}, {dprojected}, 12.0 * all_bytes(tape)).kernels =
            24;
        tape.gemm({dprojected}, {kSlotDx}, tape.tokens(), spec.hidden_size, width);
        tape.set_grad(kSlotX, kSlotDx);
        if (!tape.c.model.trains_head) return;
        LayerOp& o = tape.gemm({dprojected, kSlotX}, {}, width, spec.hidden_size, tape.tokens());
        o.layout = GemmLayout::WeightGradient;
        o.is_weight_gradient = true;
      },
      {projected, y});
  return y;
}

}  // namespace gpuplan
