// Mixture of experts in eager framework code: a router, a gather of the tokens each expert gets, the expert's MLP, and
// a weighted scatter back; a shared expert beside them. Tokens spread as Routing says, evenly if it says nothing; the
// choice of experts is as likely as any other. Sources: transformers
// modeling_mixtral.py (MixtralSparseMoeBlock), modeling_qwen2_moe.py, modeling_deepseek_v3.py, modeling_llama4.py
// (Llama4TextMoe runs every expert on every token).
#include <algorithm>
#include <cmath>

#include "models/ledger/tape.h"
#include "models/token_dispatcher.h"

namespace gpuplan {
namespace {

/// Tokens that a rank routes: its own, or those of all ranks that share the layer.
std::int64_t tokens_of(const Tape& t) { return t.c.model.split.experts_see_all ? t.tokens() : t.c.stream_tokens(); }
LocalId routed_stream(Tape& t, const char* name, std::int64_t width, Dtype dtype) {
  return t.tensor(name, tokens_of(t) * width, dtype, {Dim::Batch, Dim::Seq, Dim::Hidden, Dim::Count});
}

/// Rows that an expert takes of one rank's tokens at most. Source: NVIDIA/Megatron-LM
/// megatron/core/transformer/moe/moe_utils.py @core_v0.18.0 (get_capacity).
std::int64_t capacity_of_expert(const Tape& t) {
  const MoeSpec& moe = t.c.spec().moe;
  const std::int64_t tokens = tokens_of(t);
  const double share = double(tokens * moe.experts_per_token) / double(moe.num_experts);
  return std::min(tokens, std::int64_t(std::ceil(share * t.c.recipe.routing.capacity.value_or(1))));
}

/// Rows that a rank's experts would get if nobody dropped any, over those that it sends.
std::int64_t with_limit(const Tape& t, std::int64_t rows) {
  const Routing& routing = t.c.recipe.routing;
  if (!routing.capacity) return rows;
  const std::int64_t most = t.c.spec().moe.num_experts * capacity_of_expert(t);
  return routing.pads_to_capacity ? most : std::min(rows, most);
}

/// Rows that a rank sends to experts.
std::int64_t rows_sent(const Tape& t) {
  const MoeSpec& moe = t.c.spec().moe;
  if (moe.computes_all) return tokens_of(t) * moe.num_experts;
  return with_limit(t, tokens_of(t) * moe.experts_per_token);
}

/// Rows that come to a rank's experts: as many as its own tokens send, on the average of those that share the experts.
/// The rank of the program is the fullest one, for which the others wait.
std::int64_t rows_got(const Tape& t) {
  const double imbalance = t.c.recipe.routing.imbalance;
  if (t.c.model.split.expert_ways == 1 || imbalance == 1) return rows_sent(t);
  const double rows = double(tokens_of(t) * t.c.spec().moe.experts_per_token);
  return with_limit(t, std::int64_t(std::ceil(rows * imbalance)));
}

/// … and that they work on: of all ranks that share each of them.
std::int64_t rows_of_experts(const Tape& t) {
  const LayerSplit& split = t.c.model.split;
  return rows_got(t) * (split.experts_see_all ? 1 : split.expert_cut);
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
  const LocalId weights = routed_stream(t, "router probabilities", E, Dtype::F32);
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

/// Sends rows to the ranks of their experts, gathers them where several ranks share each, and back. Source:
/// NVIDIA/Megatron-LM megatron/core/transformer/moe/token_dispatcher.py @0014f137, the same at core_v0.18.0
/// (MoEAlltoAllTokenDispatcher: all to all over ep, all-gather over the ranks of expert tensor parallelism, sort;
/// sort, reduce-scatter, all to all).
LocalId sent_to_experts(Tape& t, LocalId rows) {
  const LayerSplit& split = t.c.model.split;
  if (split.experts_see_all) return rows;
  if (split.expert_ways > 1) rows = sent_to_sharers(t, rows, "tokens that came", rows_got(t) * width_of_experts(t));
  if (split.expert_cut > 1) rows = gathered_by_sharers(t, rows, "tokens of all that share an expert");
  return split.expert_ways * split.expert_cut == 1 ? rows : reordered(t, rows, "tokens that came, by expert");
}
LocalId sent_back(Tape& t, LocalId rows) {
  const LayerSplit& split = t.c.model.split;
  if (split.expert_ways * split.expert_cut == 1 || split.experts_see_all) return rows;
  rows = reordered(t, rows, "outputs, by rank");
  if (split.expert_cut > 1) rows = scattered_to_sharers(t, rows, "outputs, summed");
  if (split.expert_ways == 1) return rows;
  return sent_to_sharers(t, rows, "outputs that came back", rows_sent(t) * width_of_experts(t));
}

/// The rows of x that go to experts, sorted by expert.
LocalId dispatch(Tape& t, LocalId x) {
  const LocalId y = t.tensor("tokens of the experts", rows_sent(t) * width_of_experts(t), t.at(x).dtype,
                             {Dim::Batch, Dim::Seq, Dim::Hidden, Dim::Count});
  loop_over_experts(t.memory_op(OpKind::Copy, {x}, {y}, 2.0 * double(t.at(y).bytes().count)),
                    t.c.linear(LinearSlot::ExpertDown), rows_sent(t));
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
  const LocalId y = routed_stream(t, "experts' output", width_of_experts(t), t.at(rows).dtype);
  loop_over_experts(t.memory_op(OpKind::Multiply, {rows, weights}, {y}, 3.0 * double(t.at(rows).bytes().count)),
                    t.c.linear(LinearSlot::ExpertDown), rows_sent(t), 2);
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

/// Elements that come where each of `groups` of ranks gets a token once, N tokens times the groups that one reaches.
std::int64_t sent_once(const Tape& t, std::int64_t groups) {
  const MoeSpec& moe = t.c.spec().moe;
  const double reached = mean_groups_reached(groups, moe.num_experts, moe.experts_per_token);
  const double copies = reached / double(moe.experts_per_token);
  return std::int64_t(std::ceil(copies * double(rows_got(t) * width_of_experts(t))));
}

/// Inside a machine a rank gets a token once; over the network a machine does, and hands it on.
void send_once(Tape& t, LocalId from, LocalId to) {
  const LayerSplit& split = t.c.model.split;
  const std::int64_t elements = sent_once(t, split.expert_machines > 1 ? split.expert_machines : split.expert_ways);
  t.exchange(Exchange::AllToAll, from, to, Axis::Ep).message = bytes_of(elements, t.at(from).dtype);
}

/// Moves rows of x into `elements`, or sums them, and back: each is read and written once.
LocalId regrouped(Tape& t, LocalId x, const char* name, std::int64_t elements) {
  const Local like = t.at(x);
  const LocalId y = t.tensor(name, elements, like.dtype, like.dims);
  t.memory_op(OpKind::Copy, {x}, {y}, double(t.at(x).bytes().count + t.at(y).bytes().count));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]), dy = tape.grad(s.ids[1]);
        tape.memory_op(OpKind::Copy, {dy}, {dx}, double(tape.at(dx).bytes().count + tape.at(dy).bytes().count));
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

void send_gradient_once(Tape& t, const Tape::Step& s) {
  const LocalId dx = t.new_grad(s.ids[0]);
  send_once(t, t.grad(s.ids[1]), dx);
  t.add_grad(s.ids[0], dx);
}

/// Tokens come to a rank once (TokenDispatcher::sends_once), and are copied there for each of its experts.
LocalId dispatched_once(Tape& t, LocalId x) {
  const std::array<Dim, 4> dims{Dim::Batch, Dim::Seq, Dim::Hidden, Dim::Count};
  const LocalId tokens = t.tensor("tokens that came", sent_once(t, t.c.model.split.expert_ways), t.at(x).dtype, dims);
  send_once(t, x, tokens);
  t.then_backward(send_gradient_once, {x, tokens});
  return regrouped(t, tokens, "tokens of the experts", rows_of_experts(t) * width_of_experts(t));
}

/// … and what a rank's experts made of a token is summed before it goes back, and then over the ranks on the way.
LocalId combined_once(Tape& t, LocalId rows) {
  const LocalId summed = regrouped(t, rows, "outputs of each token, summed", sent_once(t, t.c.model.split.expert_ways));
  const LocalId y = routed_stream(t, "experts' output", width_of_experts(t), t.at(rows).dtype);
  send_once(t, summed, y);
  t.then_backward(send_gradient_once, {summed, y});
  return y;
}

/// The shared expert's output times its sigmoid switch (Qwen).
LocalId switched(Tape& t, LocalId x, LocalId shared) {
  const LinearRef& gate = t.c.linear(LinearSlot::SharedSwitch);
  if (!gate.exists()) return shared;
  const LocalId level = linear(t, x, gate);
  const LocalId y = routed_stream(t, "shared expert's output, switched", t.c.spec().hidden_size, t.at(shared).dtype);
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

/// Emits a mixture on the tokens that this rank routes.
LocalId routed(Tape& t, LocalId x) {
  const auto l = [&](LinearSlot slot) -> const LinearRef& { return t.c.linear(slot); };
  const bool has_norms = t.c.spec().moe.has_branch_norms;
  const auto normed = [&](LocalId of, const char* name) { return has_norms ? norm(t, of, name) : of; };
  const LocalId weights = route(t, normed(x, "normed input of the router"));
  const auto projected = [&](LocalId of, LinearSlot slot) { return l(slot).exists() ? linear(t, of, l(slot)) : of; };
  const LocalId input = projected(normed(x, "normed input of the experts"), LinearSlot::LatentIn);
  const auto worked_on = [&](LocalId rows) {
    return with_weighed_bias(t, feed_forward(t, rows, l(LinearSlot::ExpertGate), l(LinearSlot::ExpertUp),
                                             l(LinearSlot::ExpertGateUp), l(LinearSlot::ExpertDown)));
  };
  const bool sends_once = t.c.recipe.routing.dispatcher->sends_once && t.c.model.split.expert_ways > 1;
  const LocalId made = sends_once
                           ? combined_once(t, worked_on(dispatched_once(t, input)))
                           : combine(t, sent_back(t, worked_on(sent_to_experts(t, dispatch(t, input)))), weights);
  const LocalId out = normed(projected(made, LinearSlot::LatentOut), "normed output of the experts");
  if (!l(LinearSlot::SharedDown).exists()) return out;
  const LocalId fed = feed_forward(t, x, l(LinearSlot::SharedGate), l(LinearSlot::SharedUp),
                                   l(LinearSlot::SharedGateUp), l(LinearSlot::SharedDown));
  const LocalId shared = switched(t, x, normed(fed, "normed output of the shared expert"));
  const LocalId sum = routed_stream(t, "experts together", t.c.spec().hidden_size, t.at(out).dtype);
  residual_add(t, out, shared, sum);
  return sum;
}

}  // namespace

LocalId mixture_of_experts(Tape& t, LocalId x) {
  if (!t.c.model.split.experts_see_all) return routed(t, x);
  const ColumnInput all = enter_columns(t, x, t.c.linear(LinearSlot::ExpertDown).is_trained);
  const LocalId y = routed(t, all.value);
  leave_columns(t, x, all);
  return sum_row(t, y);
}

}  // namespace gpuplan
