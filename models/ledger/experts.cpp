// Mixture of experts in eager framework code: a router, a gather of the tokens each expert gets, the expert's MLP, and
// a weighted scatter back; a shared expert beside them. Tokens are assumed to spread evenly. Sources: transformers
// modeling_mixtral.py (MixtralSparseMoeBlock), modeling_qwen2_moe.py, modeling_deepseek_v3.py, modeling_llama4.py
// (Llama4TextMoe runs every expert on every token).
#include "models/ledger/tape.h"

namespace gpuplan {
namespace {

/// Rows that a rank's experts get: as many as its own tokens send, where ranks share the experts too.
std::int64_t rows_of_experts(const Tape& t) {
  const MoeSpec& moe = t.c.spec().moe;
  return t.c.stream_tokens() * (moe.computes_all ? moe.num_experts : moe.experts_per_token);
}

/// Width of what the routed experts read and write.
std::int64_t width_of_experts(const Tape& t) {
  const ModelSpec& m = t.c.spec();
  return m.moe.latent_size > 0 ? m.moe.latent_size : m.hidden_size;
}

/// Router logits and the weights of the chosen experts, in fp32.
LocalId route(Tape& t, LocalId x) {
  const std::int64_t E = t.c.spec().moe.num_experts;
  const LocalId logits = linear(t, x, t.c.linear(LinearSlot::Router));
  const LocalId weights = t.stream("router probabilities", E, Dtype::F32);
  t.memory_op(OpKind::Softmax, {logits}, {weights}, 6.0 * double(t.at(weights).elements)).kernels = 6;
  t.explain_saved(weights, "router backward");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Softmax, {s.ids[1]}, {dx}, 3.0 * double(tape.at(s.ids[1]).bytes().count)).kernels = 6;
        tape.add_grad(s.ids[0], dx);
      },
      {logits, weights});
  return weights;
}

/// Copies the same rows by expert instead of by rank, or the other way round.
LocalId reordered(Tape& t, LocalId x, const char* name) {
  if (t.c.linear(LinearSlot::ExpertDown).copies == 1) return x;
  return copied(t, x, name, t.at(x).elements, t.at(x).elements);
}

/// Rows that this rank's experts work on: of all ranks that share the experts, in equal numbers. Source:
/// NVIDIA/Megatron-LM megatron/core/transformer/moe/token_dispatcher.py @0014f137 (MoEAlltoAllTokenDispatcher:
/// token_permutation, token_unpermutation).
LocalId sent_to_experts(Tape& t, LocalId rows) {
  if (t.c.model.split.expert_ways == 1) return rows;
  return reordered(t, exchanged(t, rows, "tokens that came", Axis::Ep), "tokens that came, by expert");
}
LocalId sent_back(Tape& t, LocalId rows) {
  if (t.c.model.split.expert_ways == 1) return rows;
  return exchanged(t, reordered(t, rows, "outputs, by rank"), "outputs that came back", Axis::Ep);
}

/// The rows of x that go to experts, sorted by expert.
LocalId dispatch(Tape& t, LocalId x) {
  const LocalId y = t.tensor("tokens of the experts", rows_of_experts(t) * width_of_experts(t), t.at(x).dtype,
                             {Dim::Batch, Dim::Seq, Dim::Hidden, Dim::Count});
  loop_over_experts(t.memory_op(OpKind::Copy, {x}, {y}, 2.0 * double(t.at(y).bytes().count)),
                    t.c.linear(LinearSlot::ExpertDown), rows_of_experts(t));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Copy, {tape.grad(s.ids[1])}, {dx}, 2.0 * double(tape.at(s.ids[1]).bytes().count));
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

/// Output of each expert plus its bias times the router's weight. Bytes per element, for outputs of d bytes: the
/// product is written in fp32 (4), the sum reads both and writes fp32 (d + 8), sums are put behind each other (8) and
/// cast (4 + d). Back: two casts (2 (4 + d)), parts put behind each other (2 d), the product of gradient and bias and
/// its sum for the weight (12), and where the bias is trained that of gradient and weight (12). Source:
/// NVIDIA/Megatron-LM megatron/core/transformer/moe/experts.py @core_v0.15.0, the same at core_v0.18.0
/// (TEGroupedMLP._apply_bias).
LocalId with_weighed_bias(Tape& t, LocalId x) {
  if (!t.c.spec().moe.has_expert_bias || !t.c.framework.experts.weighs_bias) return x;
  const Local like = t.at(x);
  const auto elements = double(like.elements), d = double(size_of(like.dtype));
  const LinearRef& down = t.c.linear(LinearSlot::ExpertDown);
  const LocalId sums = t.tensor("outputs with bias, in fp32", like.elements, Dtype::F32, like.dims);
  loop_over_experts(t.memory_op(OpKind::Add, {x}, {sums}, (12 + d) * elements), down, rows_of_experts(t), 2);
  const LocalId joined = t.tensor("outputs with bias, together", like.elements, Dtype::F32, like.dims);
  t.memory_op(OpKind::Copy, {sums}, {joined}, 8 * elements);
  const LocalId y = t.tensor("outputs with bias", like.elements, like.dtype, like.dims);
  t.memory_op(OpKind::Cast, {joined}, {y}, (4 + d) * elements);
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const Local out = tape.at(s.ids[1]);
        const auto count = double(out.elements), size = double(size_of(out.dtype));
        const LocalId wide = tape.tensor("gradient of outputs with bias, in fp32", out.elements, Dtype::F32, out.dims);
        tape.memory_op(OpKind::Cast, {tape.grad(s.ids[1])}, {wide}, (4 + size) * count);
        const LocalId dx = tape.new_grad(s.ids[0]);
        const bool is_trained = tape.c.trains_norms();
        loop_over_experts(
            tape.memory_op(OpKind::Multiply, {wide}, {dx}, (4 + 3 * size + (is_trained ? 24 : 12)) * count),
            tape.c.linear(LinearSlot::ExpertDown), rows_of_experts(tape), is_trained ? 5 : 3);
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

/// Expert outputs times router weights, added at their tokens.
LocalId combine(Tape& t, LocalId rows, LocalId weights) {
  const LocalId y = t.stream("experts' output", width_of_experts(t), t.at(rows).dtype);
  loop_over_experts(t.memory_op(OpKind::Multiply, {rows, weights}, {y}, 3.0 * double(t.at(rows).bytes().count)),
                    t.c.linear(LinearSlot::ExpertDown), rows_of_experts(t), 2);
  if (!t.c.framework.experts.weighs_inside) t.explain_saved(rows, "gradient of the router weights");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId drows = tape.new_grad(s.ids[0]);
        const double traffic = 3.0 * double(tape.at(drows).bytes().count);
        if (tape.c.framework.experts.weighs_inside)
          tape.memory_op(OpKind::Copy, {tape.grad(s.ids[2])}, {drows}, traffic);
        else
          tape.memory_op(OpKind::Multiply, {tape.grad(s.ids[2]), s.ids[0], s.ids[1]}, {drows}, traffic);
        tape.add_grad(s.ids[0], drows);
      },
      {rows, weights, y});
  return y;
}

/// The shared expert's output times its sigmoid switch (Qwen).
LocalId switched(Tape& t, LocalId x, LocalId shared) {
  const LinearRef& gate = t.c.linear(LinearSlot::SharedSwitch);
  if (!gate.exists()) return shared;
  const LocalId level = linear(t, x, gate);
  const LocalId y = t.stream("shared expert's output, switched", t.c.spec().hidden_size, t.at(shared).dtype);
  t.memory_op(OpKind::Multiply, {shared, level}, {y}, 2.0 * double(t.at(y).bytes().count)).kernels = 2;
  t.explain_saved(shared, "gradient of the switch");
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dshared = tape.new_grad(s.ids[0]), dlevel = tape.new_grad(s.ids[1]);
        tape.memory_op(OpKind::Multiply, {tape.grad(s.ids[2]), s.ids[0]}, {dshared, dlevel},
                       3.0 * double(tape.at(dshared).bytes().count))
            .kernels = 3;
        tape.add_grad(s.ids[0], dshared);
        tape.add_grad(s.ids[1], dlevel);
      },
      {shared, level, y});
  return y;
}

}  // namespace

LocalId mixture_of_experts(Tape& t, LocalId x) {
  const auto l = [&](LinearSlot slot) -> const LinearRef& { return t.c.linear(slot); };
  const bool has_norms = t.c.spec().moe.has_branch_norms;
  const auto normed = [&](LocalId of, const char* name) { return has_norms ? norm(t, of, name) : of; };
  const LocalId weights = route(t, normed(x, "normed input of the router"));
  const auto projected = [&](LocalId of, LinearSlot slot) { return l(slot).exists() ? linear(t, of, l(slot)) : of; };
  const LocalId input = projected(normed(x, "normed input of the experts"), LinearSlot::LatentIn);
  const LocalId done = feed_forward(t, sent_to_experts(t, dispatch(t, input)), l(LinearSlot::ExpertGate),
                                    l(LinearSlot::ExpertUp), l(LinearSlot::ExpertGateUp), l(LinearSlot::ExpertDown));
  const LocalId rows = sent_back(t, with_weighed_bias(t, done));
  const LocalId out =
      normed(projected(combine(t, rows, weights), LinearSlot::LatentOut), "normed output of the experts");
  if (!l(LinearSlot::SharedDown).exists()) return out;
  const LocalId fed = feed_forward(t, x, l(LinearSlot::SharedGate), l(LinearSlot::SharedUp),
                                   l(LinearSlot::SharedGateUp), l(LinearSlot::SharedDown));
  const LocalId shared = switched(t, x, normed(fed, "normed output of the shared expert"));
  const LocalId sum = t.stream("experts together", t.c.spec().hidden_size, t.at(out).dtype);
  residual_add(t, out, shared, sum);
  return sum;
}

}  // namespace gpuplan
