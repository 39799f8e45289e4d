#include "planner/block.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/narrow.h"
#include "models/ledger.h"

namespace gpuplan {
namespace {

constexpr std::uint16_t kNever = 0xffff;

/// Flags per local; one object per thread, reused.
struct Flags {
  std::vector<std::uint8_t> saved, kept, wanted, alive, keep;
  std::vector<std::uint8_t> chosen;  // per forward op
  std::vector<std::uint16_t> last;
  void size(std::size_t locals) {
    for (auto* v : {&saved, &kept, &wanted, &alive, &keep}) v->assign(locals, 0);
  }
};
Flags& flags() {
  static thread_local Flags f;
  return f;
}

LocalId num_locals(const LayerGraph& graph) { return LocalId(graph.locals.size()); }  // Tape keeps it below kNoLocal

template <class Visit>
void each_ref(const LayerOp& op, Visit visit) {
  for (int i = 0; i < op.num_reads; ++i) visit(op.reads[std::size_t(i)]);
  for (int i = 0; i < op.num_writes; ++i) visit(op.writes[std::size_t(i)]);
}

bool reads_input(const std::vector<LayerOp>& ops) {
  return std::any_of(ops.begin(), ops.end(), [](const LayerOp& op) {
    const auto end = op.reads.begin() + op.num_reads;
    return std::find(op.reads.begin(), end, LocalId(kSlotX)) != end;
  });
}

bool writes_dx(const std::vector<LayerOp>& ops) {
  return std::any_of(ops.begin(), ops.end(), [](const LayerOp& op) {
    const auto end = op.writes.begin() + op.num_writes;
    return std::find(op.writes.begin(), end, LocalId(kSlotDx)) != end;
  });
}

/// The encoder's output and its gradient belong to the program: calls neither make nor free them.
void hold_memory(Flags& f) {
  for (const LocalId slot : {LocalId(kSlotMemory), LocalId(kSlotDMemory)}) f.alive[slot] = f.keep[slot] = 1;
}

/// Writes a phase of a graph: one block, or a chain of them where ranks exchange something.
class PhaseWriter {
 public:
  PhaseWriter(ModelBlocks& to, std::uint8_t graph, bool backward)
      : to_(to),
        graph_id_(graph),
        graph_(to.graphs[graph]),
        backward_(backward),
        first_(begin_block()),
        id_(first_) {}

  void change(LocalId id, std::int64_t sign) {
    begin_part(false);
    Block& b = block();
    const Local& l = graph_.locals[id];
    const std::int64_t bytes = sign * l.bytes().count;
    const std::size_t kind = std::size_t(l.kind);
    b.total.net += bytes, b.by_kind[kind].net += bytes;
    if (l.kind != LocalKind::Workspace) b.largest = std::max(b.largest, Bytes{bytes});
    b.total.peak = std::max(b.total.peak, b.total.net);
    b.by_kind[kind].peak = std::max(b.by_kind[kind].peak, b.by_kind[kind].net);
    b.events.push_back({sign > 0 ? BlockEvent::Alloc : BlockEvent::Free, id});
    use(id);
  }
  /// Begins an op: what follows until end_op() belongs to it.
  void begin_op(const LayerOp& op) {
    begin_part(op.exchange != Exchange::None);
    each_ref(op, [&](LocalId id) { use(id); });
    if (op.exchange == Exchange::None) return;
    Block& b = block();
    b.exchange = op.exchange, b.axis = op.axis, b.is_beside = op.is_beside;
    b.goes_with_columns = op.goes_with_columns;
    b.message = op.message.count > 0
                    ? op.message
                    : std::max(graph_.locals[op.reads[0]].bytes(), graph_.locals[op.writes[0]].bytes());
  }
  void run(std::uint16_t op) { block().events.push_back({BlockEvent::Run, op}); }
  void end_op(const LayerOp& op) {
    is_cut_ = block().exchange != Exchange::None || op.ends_beside;
    joins_ |= op.ends_beside;
  }
  BlockId first() const { return first_; }

 private:
  Block& block() { return to_.blocks[id_]; }
  BlockId begin_block() {
    GPUPLAN_CHECK(to_.num_blocks < kNoBlock, "too many blocks");
    if (to_.blocks.size() == to_.num_blocks) to_.blocks.emplace_back();
    const auto id = narrow<BlockId>(to_.num_blocks++);
    Block& b = to_.blocks[id];
    std::vector<BlockEvent> events = std::move(b.events);
    events.clear();
    b = {.events = std::move(events), .graph = graph_id_, .runs_backward = backward_};
    return id;
  }
  /// An exchange is a block of its own.
  void begin_part(bool is_exchange) {
    if (!std::exchange(is_cut_, false) && (!is_exchange || block().events.empty())) return;
    const BlockId next = begin_block();
    block().next = next;
    id_ = next;
    block().joins = std::exchange(joins_, false);
  }
  void use(LocalId id) {
    if (id < kNumSlots) block().slots |= std::uint8_t(1u << id);
  }

  ModelBlocks& to_;
  std::uint8_t graph_id_;
  const LayerGraph& graph_;
  bool backward_, is_cut_ = false, joins_ = false;
  BlockId first_, id_;
};

/// Derives the events of a phase: f.alive says what exists on entry, f.keep what survives, `chosen` (or all) which ops
/// run. Returns its first block.
BlockId close(ModelBlocks& to, std::uint8_t graph_id, bool backward,
              const std::vector<std::uint8_t>* chosen = nullptr) {
  Flags& f = flags();
  hold_memory(f);
  const LayerGraph& graph = to.graphs[graph_id];
  const auto& ops = backward ? graph.backward : graph.forward;
  f.last.assign(graph.locals.size(), kNever);
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (!chosen || (*chosen)[i]) each_ref(ops[i], [&](LocalId id) { f.last[id] = narrow<std::uint16_t>(i); });

  PhaseWriter out(to, graph_id, backward);
  for (LocalId id = 0; id < num_locals(graph); ++id)  // dead on arrival: nothing in this block reads it
    if (f.alive[id] && !f.keep[id] && f.last[id] == kNever && id >= kNumSlots) out.change(id, -1);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (chosen && !(*chosen)[i]) continue;
    const LayerOp& op = ops[i];
    out.begin_op(op);
    for (int w = 0; w < op.num_writes; ++w) {
      const LocalId id = op.writes[std::size_t(w)];
      if (!f.alive[id]) {
        f.alive[id] = 1;
        out.change(id, +1);
      }
    }
    out.run(narrow<std::uint16_t>(i));
    each_ref(op, [&](LocalId id) {
      if (f.last[id] != i || !f.alive[id] || f.keep[id]) return;
      f.alive[id] = 0;
      out.change(id, -1);
    });
    out.end_op(op);
  }
  for (LocalId id = 0; id < kNumSlots; ++id)  // a consumed slot that no op read leaves at the end
    if (f.alive[id] && !f.keep[id]) {
      f.alive[id] = 0;
      out.change(id, -1);
    }
  return out.first();
}

void mark_saved(const LayerGraph& graph, std::vector<std::uint8_t>& saved) {
  saved.assign(graph.locals.size(), 0);
  std::vector<std::uint8_t>& made = flags().wanted;
  made.assign(graph.locals.size(), 0);
  for (const LayerOp& op : graph.forward)
    for (int w = 0; w < op.num_writes; ++w) made[op.writes[std::size_t(w)]] = 1;
  made[kSlotX] = 1;
  made[kSlotY] = 0;
  for (const LayerOp& op : graph.backward)
    for (int r = 0; r < op.num_reads; ++r) saved[op.reads[std::size_t(r)]] |= made[op.reads[std::size_t(r)]];
}

bool is_scores(const Local& l) { return l.dims[3] == Dim::Keys; }

/// f.kept: what a checkpointed layer keeps from its forward beside the input.
void choose_kept(const LayerGraph& graph, KeepPolicy policy) {
  Flags& f = flags();
  f.kept.assign(graph.locals.size(), 0);
  if (policy == KeepPolicy::AllButScores)
    for (LocalId id = kNumSlots; id < num_locals(graph); ++id) f.kept[id] = f.saved[id] && !is_scores(graph.locals[id]);
  if (policy == KeepPolicy::MatmulsAndAttention)
    for (const LayerOp& op : graph.forward)
      for (int w = 0; w < op.num_writes; ++w) {
        const LocalId id = op.writes[std::size_t(w)];
        f.kept[id] =
            id >= kNumSlots && op.cost != CostClass::Memory;  // saved or read again: slice_recompute drops the rest
      }
  if (policy == KeepPolicy::EverySecondMatmul) {
    int num_matmuls = 0;
    for (const LayerOp& op : graph.forward) {
      if (!op.saves_compute_output) continue;
      if (op.kind != OpKind::Attention && ++num_matmuls % 2 == 0) continue;
      for (int w = 0; w < op.num_writes; ++w)
        if (op.writes[std::size_t(w)] >= kNumSlots) f.kept[op.writes[std::size_t(w)]] = 1;
    }
  }
}

/// Ops whose outputs are all kept never run again; of the others, those that make what backward reads (f.chosen), or
/// also those that stand before the last of them, or all.
void widen_recompute(const LayerGraph& graph, RecomputedOps which) {
  if (which == RecomputedOps::Read) return;
  Flags& f = flags();
  std::size_t end = graph.forward.size();
  if (which == RecomputedOps::UntilLastSaved)
    while (end > 0 && !f.chosen[end - 1]) --end;
  for (std::size_t i = 0; i < end; ++i) {
    const LayerOp& op = graph.forward[i];
    bool is_kept = op.num_writes > 0;
    for (int w = 0; w < op.num_writes; ++w) is_kept &= f.kept[op.writes[std::size_t(w)]] != 0;
    if (!is_kept) f.chosen[i] = 1;
  }
}

/// f.chosen: the forward ops that regenerate what is saved but not kept; then drops kept locals that nobody reads,
/// unless the policy stores by op, read or not (torch's selective checkpoint contexts).
void slice_recompute(const LayerGraph& graph, bool keeps_unread) {
  Flags& f = flags();
  f.chosen.assign(graph.forward.size(), 0);
  f.wanted.assign(graph.locals.size(), 0);
  std::vector<std::uint8_t>& read = f.keep;
  read.assign(graph.locals.size(), 0);
  for (LocalId id = kNumSlots; id < num_locals(graph); ++id) f.wanted[id] = f.saved[id] && !f.kept[id];
  for (std::size_t i = graph.forward.size(); i-- > 0;) {
    const LayerOp& op = graph.forward[i];
    bool needed = false;
    for (int w = 0; w < op.num_writes; ++w) needed |= f.wanted[op.writes[std::size_t(w)]] != 0;
    if (!needed) continue;
    f.chosen[i] = 1;
    for (int r = 0; r < op.num_reads; ++r) {
      const LocalId id = op.reads[std::size_t(r)];
      read[id] = 1;
      if (!f.kept[id] && id >= kNumSlots) f.wanted[id] = 1;
    }
  }
  if (!keeps_unread)
    for (LocalId id = kNumSlots; id < num_locals(graph); ++id) f.kept[id] = f.kept[id] && (f.saved[id] || read[id]);
}

}  // namespace

std::vector<LocalId> saved_locals(const LayerGraph& graph) {
  mark_saved(graph, flags().saved);
  std::vector<LocalId> out;
  for (LocalId id = 0; id < num_locals(graph); ++id)
    if (flags().saved[id]) out.push_back(id);
  return out;
}

LayerBlocks add_layer_blocks(ModelBlocks& to, std::uint8_t graph_id, bool plain, bool checkpointed, KeepPolicy policy,
                             RecomputedOps recomputes) {
  const LayerGraph& graph = to.graphs[graph_id];
  Flags& f = flags();
  f.size(graph.locals.size());
  mark_saved(graph, f.saved);
  LayerBlocks out;
  const auto enter = [&] {
    std::fill(f.alive.begin(), f.alive.end(), 0);
    std::fill(f.keep.begin(), f.keep.end(), 0);
  };
  if (plain) {
    enter();
    f.alive[kSlotX] = 1;
    for (LocalId id = 0; id < num_locals(graph); ++id) f.keep[id] = f.saved[id];
    f.keep[kSlotY] = 1;
    out.forward = close(to, graph_id, false);
    enter();
    for (LocalId id = 0; id < num_locals(graph); ++id) f.alive[id] = f.saved[id];
    f.alive[kSlotDy] = f.keep[kSlotDx] = 1;
    out.backward = close(to, graph_id, true);
  }
  if (!checkpointed) return out;
  choose_kept(graph, policy);
  slice_recompute(graph, policy == KeepPolicy::EverySecondMatmul);
  if (policy == KeepPolicy::Nothing || policy == KeepPolicy::EverySecondMatmul) widen_recompute(graph, recomputes);
  enter();
  f.alive[kSlotX] = f.keep[kSlotX] = f.keep[kSlotY] = 1;
  for (LocalId id = kNumSlots; id < num_locals(graph); ++id) f.keep[id] = f.kept[id];
  out.forward_drop = close(to, graph_id, false);
  enter();
  f.alive[kSlotX] = f.keep[kSlotX] = 1;
  for (LocalId id = kNumSlots; id < num_locals(graph); ++id) f.alive[id] = f.kept[id], f.keep[id] = f.saved[id];
  for (std::size_t i = 0; i < graph.forward.size(); ++i) {
    const auto& writes = graph.forward[i].writes;
    const auto end = writes.begin() + graph.forward[i].num_writes;
    out.recomputes_output |= f.chosen[i] && std::find(writes.begin(), end, LocalId(kSlotY)) != end;
  }
  f.keep[kSlotY] = out.recomputes_output;
  out.recompute = close(to, graph_id, false, &f.chosen);
  enter();
  for (LocalId id = 0; id < num_locals(graph); ++id) f.alive[id] = f.saved[id];
  f.alive[kSlotX] = f.alive[kSlotDy] = f.keep[kSlotDx] = 1;
  out.backward_dropped = close(to, graph_id, true);
  return out;
}

BlockId add_whole_block(ModelBlocks& to, std::uint8_t graph_id, bool backward) {
  const LayerGraph& graph = to.graphs[graph_id];
  Flags& f = flags();
  f.size(graph.locals.size());
  const auto& ops = backward ? graph.backward : graph.forward;
  f.alive[kSlotX] = !backward && reads_input(ops);
  f.alive[kSlotDy] = backward;
  f.keep[kSlotY] = f.keep[kSlotDx] = 1;
  return close(to, graph_id, backward);
}

namespace {

/// A head in two: what backward reads of the forward stays between them.
void add_head_blocks(ModelBlocks& to, std::uint8_t graph_id) {
  const LayerGraph& graph = to.graphs[graph_id];
  Flags& f = flags();
  f.size(graph.locals.size());
  mark_saved(graph, f.saved);
  to.head_keeps_input = f.saved[kSlotX] != 0;
  f.alive[kSlotX] = 1;
  for (LocalId id = 0; id < num_locals(graph); ++id) f.keep[id] = f.saved[id];
  to.head = close(to, graph_id, false);
  std::fill(f.alive.begin(), f.alive.end(), 0);
  std::fill(f.keep.begin(), f.keep.end(), 0);
  for (LocalId id = 0; id < num_locals(graph); ++id) f.alive[id] = f.saved[id];
  f.keep[kSlotDx] = 1;
  to.head_backward = close(to, graph_id, true);
}

std::uint8_t new_graph(ModelBlocks& to) {
  if (to.graphs.size() == to.num_graphs) to.graphs.emplace_back();
  return narrow<std::uint8_t>(to.num_graphs++);
}

KeepPolicy keep_policy(const Recipe& recipe, const FrameworkConvention& framework) {
  if (recipe.checkpointing == Checkpointing::Elementwise) return KeepPolicy::MatmulsAndAttention;
  if (recipe.checkpointing != Checkpointing::Selective) return KeepPolicy::Nothing;
  return framework.layers.selective == SelectiveKind::Ops ? KeepPolicy::EverySecondMatmul : KeepPolicy::AllButScores;
}

RecomputedOps recomputed_ops(const Recipe& recipe, const FrameworkLayers& layers) {
  if (layers.checkpoints_reentrantly) return RecomputedOps::All;  // outside of what a compiler takes in
  return recipe.torch_compile ? RecomputedOps::Read : layers.recomputes;
}

/// A kind whose layers all stand in front of the first that runs backward is frozen.
bool runs_backward(const TrainedModel& model, std::size_t kind) {
  const auto& order = model.weights.order;
  for (std::size_t i = order.size(); i-- > 0;)
    if (order[i] == kind) return std::int64_t(i) + 1 >= model.first_backward;
  return true;
}

}  // namespace

void make_blocks(ModelBlocks& out, const Job& job) { make_blocks(out, job, job.recipe()); }

void make_blocks(ModelBlocks& out, const Job& job, const Recipe& recipe) {
  const TrainedModel& model = job.model;
  out.num_graphs = out.num_blocks = 0;
  out.kinds.clear();
  out.embedding = out.embedding_backward = out.head = out.head_backward = kNoBlock;
  out.head_keeps_input = false;
  LedgerContext context = make_context(model, recipe, job.framework, job.numerics);
  const bool plain = recipe.checkpointing == Checkpointing::None || recipe.checkpointing == Checkpointing::EveryK;
  const bool checkpointed = recipe.checkpointing != Checkpointing::None;
  const auto add_layer = [&](KindBlocks& kind, bool windowed) {
    context.is_windowed = windowed;
    const bool is_bridge = context.layer().is_bridge;  // outside the checkpointed modules
    kind.graph = new_graph(out);
    emit_layer(out.graphs[kind.graph], context);
    kind.keeps_input = reads_input(out.graphs[kind.graph].backward);
    kind.makes_dx = writes_dx(out.graphs[kind.graph].backward);
    if (!kind.runs_backward) return LayerBlocks{.forward = add_whole_block(out, kind.graph, false)};
    return add_layer_blocks(out, kind.graph, plain || is_bridge, checkpointed && !is_bridge,
                            keep_policy(recipe, job.framework), recomputed_ops(recipe, job.framework.layers));
  };
  const ModelSpec& spec = model.spec;
  const bool all_windowed = spec.sliding_layers >= spec.num_hidden_layers;
  out.has_windowed = spec.sliding_window > 0 && spec.sliding_layers > 0 && recipe.seq_len > spec.sliding_window;
  for (context.kind = 0; context.kind < model.weights.kinds.size(); ++context.kind) {
    KindBlocks& kind = out.kinds.emplace_back();
    kind.runs_backward = runs_backward(model, context.kind);
    const bool may_slide = out.has_windowed && context.is_language();
    if (may_slide) kind.windowed = add_layer(kind, true);
    kind.full = may_slide && all_windowed ? kind.windowed : add_layer(kind, false);
  }
  context.kind = 0;

  const std::uint8_t embedding = new_graph(out);
  emit_embedding(out.graphs[embedding], context);
  out.embedding = add_whole_block(out, embedding, false);
  const bool trains_first = context.is_language() ? model.trains_embedding : model.trains_patches;
  if (trains_first) out.embedding_backward = add_whole_block(out, embedding, true);
  context.kind = model.weights.order.back();
  const std::uint8_t head = new_graph(out);
  emit_head(out.graphs[head], context);
  if (out.graphs[head].backward.empty())
    out.head = add_whole_block(out, head, false);
  else
    add_head_blocks(out, head);
}

Seconds launched_end(Seconds before, Seconds launched, std::int64_t count, Seconds work, Seconds dispatch) {
  if (count <= 0) return before + work;
  const Seconds from_first = std::max(before, launched + dispatch) + work;
  return std::max(from_first, launched + double(count) * dispatch + work / double(count));
}

/// Products that read what is gathered, or make what is scattered: an exchange along the sequence can run beside them.
/// Those of weight gradients where there are no others.
static Seconds own_products(const std::vector<LayerOp>& ops, const LayerOp& exchange, const CostModel& model,
                            Software software) {
  const bool is_gather = exchange.exchange == Exchange::AllGather;
  const LocalId shared = is_gather ? exchange.writes[0] : exchange.reads[0];
  std::array<Seconds, 2> time{};  // the second: of weight gradients
  for (const LayerOp& op : ops) {
    if (op.cost != CostClass::Gemm) continue;
    const auto named = is_gather ? std::span<const LocalId>(op.reads).first(op.num_reads)
                                 : std::span<const LocalId>(op.writes).first(op.num_writes);
    if (std::ranges::count(named, shared) > 0) time[op.is_weight_gradient] += model.op_time(op, software);
  }
  return time[0].value > 0 ? time[0] : time[1];
}

std::vector<BlockCost> block_costs(const StepProgram& program, const CostModel& model) {
  std::vector<BlockCost> costs(program.blocks.size());
  for (std::size_t b = 0; b < costs.size(); ++b) {
    const Block& block = program.blocks[b];
    const LayerGraph& graph = program.graphs[block.graph];
    const auto& ops = block.runs_backward ? graph.backward : graph.forward;
    BlockCost& cost = costs[b];
    if (block.exchange != Exchange::None) {  // takes as long as the links let it
      const auto run = std::ranges::find(block.events, BlockEvent::Run, &BlockEvent::kind);
      if (run != block.events.end()) cost.device = own_products(ops, ops[run->index], model, graph.software);
      continue;
    }
    for (const BlockEvent& event : block.events) {
      if (event.kind != BlockEvent::Run) continue;
      const LayerOp& op = ops[event.index];
      const Seconds work = model.op_time(op, graph.software);
      const Seconds dispatch = op.is_in_loop ? model.python_dispatch : model.dispatch;
      cost.host_tail = launched_end(cost.host_tail, cost.launching, op.kernels, work, dispatch);
      cost.device += work;
      cost.flops += op.flops;
      cost.launching += double(op.kernels) * dispatch;
    }
  }
  return costs;
}

}  // namespace gpuplan
