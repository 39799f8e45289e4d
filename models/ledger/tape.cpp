#include "models/ledger/tape.h"

#include <algorithm>

#include "base/error.h"

namespace gpuplan {

// Reused between plans of one thread: a search builds tens of thousands of graphs per second.
std::vector<Tape::Step>& Tape::steps() {
  static thread_local std::vector<Step> steps;
  return steps;
}
std::vector<LocalId>& Tape::grads() {
  static thread_local std::vector<LocalId> grads;
  return grads;
}

Tape::Tape(LayerGraph& graph, const LedgerContext& context) : c(context), graph_(graph) {
  steps().clear();
  grads().assign(64, kNoLocal);
  graph.clear();
  graph.software = c.framework.layers.is_handwritten ? Software::Handwritten
                   : c.is_fused                      ? Software::Compiled
                                                     : Software::Eager;
  const Local boundary{.name = "layer boundary",
                       .elements = c.stream_tokens() * c.spec().stream_width(),
                       .dtype = c.numerics.residual,
                       .dims = {Dim::Batch, Dim::Seq, Dim::Hidden, Dim::Count}};
  for (LocalId slot = 0; slot < kNumSlots; ++slot) graph.locals[slot] = boundary;
  graph.locals[kSlotDx] = graph.locals[kSlotDy] = boundary;
  graph.locals[kSlotDx].name = graph.locals[kSlotDy].name = "gradient of the residual stream";
  if (c.layer().part == ModelPart::Projector)  // from the tower's stream to that of the language model
    graph.locals[kSlotY].elements = graph.locals[kSlotDy].elements =
        c.model.stream_tokens(c.recipe) * c.model.spec.stream_width();
  if (c.model.spec.vision.is_present())
    graph.locals[kSlotMemory].elements = graph.locals[kSlotDMemory].elements = c.memory_elements();
  graph.locals[kSlotMemory].name = "encoder output";
  graph.locals[kSlotDMemory].name = "gradient of the encoder output";
}

LocalId Tape::tensor(const char* name, std::int64_t elements, Dtype dtype, std::array<Dim, 4> dims, LocalKind kind) {
  graph_.locals.push_back({name, "", elements, dtype, kind, dims});
  GPUPLAN_CHECK(graph_.locals.size() < kNoLocal, "too many tensors in one layer");
  if (graph_.locals.size() > grads().size()) grads().resize(2 * graph_.locals.size(), kNoLocal);
  return LocalId(graph_.locals.size() - 1);
}

LocalId Tape::wide(const char* name, std::int64_t width, Dim dim, Dtype dtype, LocalKind kind) {
  return tensor(name, tokens() * width, dtype, {Dim::Batch, Dim::Seq, dim, Dim::Count}, kind);
}

LocalId Tape::stream(const char* name, std::int64_t width, Dtype dtype) {
  return tensor(name, c.stream_tokens() * width, dtype, {Dim::Batch, Dim::Seq, Dim::Hidden, Dim::Count});
}

LocalId Tape::scratch(const char* name, std::int64_t elements, Dtype dtype) {
  return tensor(name, elements, dtype, {Dim::Rows, Dim::Cols, Dim::Count, Dim::Count}, LocalKind::Workspace);
}

LayerOp& Tape::op(OpKind kind, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes) {
  auto& list = is_backward_ ? graph_.backward : graph_.forward;
  LayerOp& o = list.emplace_back();
  o.kind = kind;
  for (LocalId id : reads)
    if (id != kNoLocal) o.reads[o.num_reads++] = id;
  for (LocalId id : writes)
    if (id != kNoLocal) o.writes[o.num_writes++] = id;
  return o;
}

LayerOp& Tape::memory_op(OpKind kind, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes,
                         double traffic) {
  LayerOp& o = op(kind, reads, writes);
  o.cost = CostClass::Memory;
  o.traffic = traffic;
  return o;
}

LayerOp& Tape::gemm(std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes, std::int64_t m,
                    std::int64_t n, std::int64_t k) {
  LayerOp& o = op(OpKind::Linear, reads, writes);
  o.cost = CostClass::Gemm;
  o.m = m, o.n = n, o.k = k;
  o.layout = is_backward_ ? GemmLayout::InputGradient : GemmLayout::Forward;
  o.flops = 2.0 * double(m) * double(n) * double(k);
  o.traffic =
      double(size_of(c.numerics.compute)) * (double(m) * double(n) + double(n) * double(k) + double(m) * double(k));
  return o;
}

void Tape::unwind() {
  is_backward_ = true;
  for (std::size_t i = steps().size(); i-- > 0;) {
    const Step step = steps()[i];
    step.run(*this, step);
  }
}

void Tape::set_grad(LocalId of, LocalId gradient) { grads()[of] = gradient; }

LocalId Tape::new_grad(LocalId of) {
  if (of == kSlotX && grads()[of] == kNoLocal) return kSlotDx;
  const Local like = at(of);
  return tensor("gradient", like.elements, like.dtype, like.dims, like.kind);
}

void Tape::add_grad(LocalId of, LocalId contribution) {
  LocalId& current = grads()[of];
  if (current == kNoLocal) {
    current = contribution;
    return;
  }
  const double bytes = double(at(of).bytes().count);
  if (of != kSlotX) {
    memory_op(OpKind::Add, {current, contribution}, {current}, 3 * bytes);
    return;
  }
  memory_op(OpKind::Add, {current, contribution}, {kSlotDx}, 3 * bytes);  // the unit's result leaves in its own slot
  current = kSlotDx;
}

LocalId Tape::cast(LocalId from, Dtype dtype, const char* name) {
  const Local like = at(from);
  if (like.dtype == dtype) return from;
  const LocalId to = tensor(name, like.elements, dtype, like.dims, like.kind);
  memory_op(OpKind::Cast, {from}, {to}, double(like.elements * (size_of(like.dtype) + size_of(dtype))));
  return to;
}

void residual_add(Tape& tape, LocalId x, LocalId branch, LocalId y) {
  tape.memory_op(OpKind::Add, {x, branch}, {y}, 3.0 * double(tape.at(y).bytes().count));
  tape.then_backward(
      [](Tape& t, const Tape::Step& s) {
        const LocalId dy = t.grad(s.ids[2]);
        t.set_grad(s.ids[0], dy);  // aliases: no copy
        t.set_grad(s.ids[1], t.cast(dy, t.at(s.ids[1]).dtype, "branch gradient"));
      },
      {x, branch, y});
}

LocalId part(Tape& tape, LocalId x, const char* name, std::int64_t width, Dim dim, bool is_own) {
  const std::int64_t tokens = is_own ? tape.c.stream_tokens() : tape.tokens();
  const LocalId y = tape.tensor(name, tokens * width, tape.at(x).dtype, {Dim::Batch, Dim::Seq, dim, Dim::Count});
  tape.memory_op(OpKind::Copy, {x}, {y}, 2.0 * double(tape.at(y).bytes().count));
  tape.then_backward(
      [](Tape& t, const Tape::Step& s) {
        const LocalId whole = t.grad(s.ids[0]) == kNoLocal ? t.new_grad(s.ids[0]) : t.grad(s.ids[0]);
        t.memory_op(OpKind::Copy, {t.grad(s.ids[1])}, {whole}, 2.0 * double(t.at(s.ids[1]).bytes().count));
        t.set_grad(s.ids[0], whole);
      },
      {x, y});
  return y;
}

LocalId convert(Tape& tape, LocalId x, Dtype dtype, const char* name) {
  const LocalId y = tape.cast(x, dtype, name);
  if (y == x) return x;
  tape.then_backward(
      [](Tape& t, const Tape::Step& s) {
        t.add_grad(s.ids[0], t.cast(t.grad(s.ids[1]), t.at(s.ids[0]).dtype, "gradient, cast"));
      },
      {x, y});
  return y;
}

LocalId copied(Tape& t, LocalId x, const char* name, std::int64_t elements, std::int64_t num_read) {
  const Local like = t.at(x);
  const LocalId y = t.tensor(name, elements, like.dtype, like.dims);
  t.memory_op(OpKind::Copy, {x}, {y}, double((num_read + elements) * size_of(like.dtype)));
  t.then_backward(
      [](Tape& tape, const Tape::Step& s) {
        const LocalId dx = tape.new_grad(s.ids[0]);
        tape.memory_op(OpKind::Copy, {tape.grad(s.ids[1])}, {dx}, 2.0 * double(tape.at(dx).bytes().count));
        tape.add_grad(s.ids[0], dx);
      },
      {x, y});
  return y;
}

LocalId dropout(Tape& tape, LocalId x, double probability) {
  if (probability <= 0) return x;
  const Local like = tape.at(x);
  const LocalId mask = tape.tensor("dropout mask", like.elements, Dtype::Bool, like.dims);
  const LocalId y = tape.tensor("dropped", like.elements, like.dtype, like.dims);
  tape.memory_op(OpKind::Dropout, {x}, {y, mask}, 2.0 * double(like.bytes().count) + double(like.elements));
  tape.explain_saved(mask, "mask of dropout");
  tape.then_backward(
      [](Tape& t, const Tape::Step& s) {
        const LocalId dx = t.new_grad(s.ids[0]);
        t.memory_op(OpKind::Dropout, {t.grad(s.ids[2]), s.ids[1]}, {dx}, 2.0 * double(t.at(dx).bytes().count));
        t.add_grad(s.ids[0], dx);
      },
      {x, mask, y});
  return y;
}

}  // namespace gpuplan
