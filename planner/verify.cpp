// The invariants of step programs: lifetimes, placements per axis, frames of locals, matching collectives and messages.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "planner/program_walk.h"

namespace gpuplan {
namespace {

using namespace operand;

/// Lifetimes and placements of one program, followed instruction by instruction.
class Verifier {
 public:
  Verifier(const StepProgram& all, const RankProgram& program)
      : all_(all),
        p_(program),
        state_(program.buffers.size()) {
    for (std::size_t i = 0; i < p_.buffers.size(); ++i)
      state_[i] = {p_.buffers[i].is_persistent, p_.buffers[i].placement};
  }

  /// One turn stands for all of a repeat: it leaves what it found.
  void begin_repeat(const Instruction&) { loop_entry_ = snapshot(); }
  std::uint32_t skips(const Instruction&, std::uint32_t left) {
    require(snapshot() == loop_entry_, "a repeat turn leaves other buffers than it found");
    return left;
  }

  void run() {
    const auto entry = snapshot();
    walk(
        p_,
        [&](const ProgramCursor& at) {
          at_ = at.index();
          step(at.instruction());
        },
        *this);
    at_ = p_.instructions.size();
    require(snapshot() == entry, "the step does not end with the buffers it began with");
    for (std::uint32_t b = 0; b < p_.buffers.size(); ++b)
      require(!p_.buffers[b].is_persistent || state_[b].placement == p_.buffers[b].placement,
              "the step leaves a persistent buffer placed otherwise", b);
    for (const auto& frame : frames_)
      for (std::size_t local = kNumSlots; local < frame.size(); ++local)
        require(!frame[local], "a frame keeps a local beyond the step");
  }

 private:
  struct State {
    bool alive{};
    std::array<Placement, kNumAxes> placement{};
  };

  std::vector<bool> snapshot() const {
    std::vector<bool> out;
    for (const State& s : state_) out.push_back(s.alive);
    return out;
  }

  void require(bool condition, const char* what, std::uint32_t buffer = 0) const {
    if (condition) return;
    const Instruction* i = at_ < p_.instructions.size() ? &p_.instructions[at_] : nullptr;
    throw BugError(fmt::format("step program: {} (instruction {} {}, unit {}, {})", what, at_,
                               i ? to_string(i->op) : "end", i ? i->unit : 0,
                               buffer ? buffer_name(p_.buffers[buffer], 1 << 20) : ""));
  }

  /// Collectives are of the ranks along an axis, messages of neighbours in a pipeline.
  void check_axis(const Instruction& i) const {
    const bool is_message = i.op == OpCode::Send || i.op == OpCode::Recv;
    if (!is_message && !is_collective(i.op)) return;
    require(all_.mesh.ways(i.axis) > 1 && is_pipeline(i.axis) == is_message, "an axis along which nobody takes part");
  }

  void step(const Instruction& i) {
    check_axis(i);
    for (const Operand o : p_.operands_of(i)) {
      State& s = state_[id(o)];
      if (o & kAllocates) {
        require(!s.alive, "allocated twice", id(o));
        s = {true, p_.buffers[id(o)].placement};
      }
      if (is_callees(o) && (o & kWrite)) s.alive = true;
      if ((o & (kRead | kWrite)) && !is_callees(o)) require(s.alive, "used while not alive", id(o));
      if (is_callees(o) && (o & kRead)) require(s.alive, "a callee reads what is not alive", id(o));
    }
    if (i.op == OpCode::Cast || i.op == OpCode::CopyIn || i.op == OpCode::CopyOut) carry_placement(i);
    if (!runs_block(i) || i.op == OpCode::Call) check_placement(i);  // what a layer's parts exchange is the ledger's
    if (runs_block(i)) {
      consume(i);
      follow_frame(i);
    }
    for (const Operand o : p_.operands_of(i))
      if (o & kFrees) {
        const ProgramBuffer& b = p_.buffers[id(o)];
        require(state_[id(o)].alive, "freed twice", id(o));
        require(i.stream == StreamId::Compute || b.home == i.stream || b.space != MemorySpace::Device,
                "freed on an asynchronous stream that did not make it", id(o));
        state_[id(o)].alive = false;
      }
  }

  /// A copy holds of the logical tensor what its source holds.
  void carry_placement(const Instruction& i) {
    const auto operands = p_.operands_of(i);
    if (operands.size() < 2 || (operands[1] & kOwnSlice)) return;
    state_[id(operands[1])].placement = state_[id(operands[0])].placement;
  }

  /// A consumed slot is freed inside the call: follow the block's events on slots.
  void consume(const Instruction& i) {
    const Block& b = all_.blocks[i.block];
    std::array<bool, kNumSlots> frees{};
    for (const BlockEvent& e : b.events)
      if (e.kind == BlockEvent::Free && e.index < kNumSlots) frees[e.index] = true;
    std::size_t k = 0;
    for (const Operand o : p_.operands_of(i)) {
      if (!is_callees(o)) continue;
      if ((o & kRead) && frees[slot(o)]) state_[id(o)].alive = false;
      ++k;
    }
    constexpr unsigned kCallees = (1u << (kSlotDx + 1)) - 1;  // of the slots
    require(k > 0 || (b.slots & kCallees) == 0, "a call binds none of its block's slots");
  }

  /// Locals live in the call's frame from forward to backward: every op reads what is alive there.
  void follow_frame(const Instruction& i) {
    const Block& block = all_.blocks[i.block];
    const LayerGraph& graph = all_.graphs[block.graph];
    if (frames_.size() <= i.frame) frames_.resize(i.frame + 1);
    auto& alive = frames_[i.frame];
    if (alive.size() != graph.locals.size()) {
      for (std::size_t local = kNumSlots; local < alive.size(); ++local)
        require(!alive[local], "a frame changes its layer while a local is alive");
      alive.assign(graph.locals.size(), false);
    }
    for (const BlockEvent& e : block.events) {
      if (e.kind == BlockEvent::Run) {
        const LayerOp& op = (block.runs_backward ? graph.backward : graph.forward)[e.index];
        for (int r = 0; r < op.num_reads; ++r)
          require(op.reads[std::size_t(r)] < kNumSlots || alive[op.reads[std::size_t(r)]],
                  "an op reads a local that is not alive in its frame");
      } else if (e.index >= kNumSlots) {
        require(alive[e.index] != (e.kind == BlockEvent::Alloc), "a frame allocates a live local or frees a dead one");
        alive[e.index] = e.kind == BlockEvent::Alloc;
      }
    }
  }

  void check_placement(const Instruction& i) {
    const std::size_t axis = std::size_t(i.axis);
    for (const Operand o : p_.operands_of(i)) {
      State& s = state_[id(o)];
      const Placement here = s.placement[axis];
      if (i.op == OpCode::AllReduce && p_.buffers[id(o)].role != BufferRole::Bucket && !(o & kOwnSlice)) {
        require(here == Placement::Partial, "an all-reduce of what is not partial", id(o));
        s.placement[axis] = Placement::Replicated;
      }
      if (i.op == OpCode::ReduceScatter && (o & kRead) && !(o & kWrite))
        require(here == Placement::Partial, "a reduce-scatter of what is not partial", id(o));
      if (i.op == OpCode::AllGather && (o & kRead) && !(o & kOwnSlice))
        require(here == Placement::Sharded, "an all-gather of what is not sharded", id(o));
      // a step or a copy into one's own slice leaves the rest of the buffer stale until it is gathered
      if ((o & kOwnSlice) && (o & kWrite) && i.op != OpCode::AllReduce)
        s.placement[axis] = i.op == OpCode::AllGather ? Placement::Replicated : Placement::Sharded;
      const BufferRole role = p_.buffers[id(o)].role;
      if (i.op == OpCode::OptimizerStep &&
          (role == BufferRole::Gradient || role == BufferRole::FullGradient || role == BufferRole::StepGradient))
        for (const Placement p : s.placement)
          require(p != Placement::Partial, "the optimizer steps a gradient that is still partial", id(o));
    }
  }

  const StepProgram& all_;
  const RankProgram& p_;  // layers written out
  std::vector<State> state_;
  std::vector<bool> loop_entry_;
  std::vector<std::vector<bool>> frames_;
  std::size_t at_{};
};

/// A block's summary, which the scalar replay trusts, equals its events. Lifetimes are followed frame by frame above.
void verify_block(const StepProgram& all, const Block& block) {
  const LayerGraph& graph = all.graphs[block.graph];
  Usage usage;
  for (const BlockEvent& e : block.events) {
    if (e.kind == BlockEvent::Run) continue;
    const std::int64_t bytes = graph.locals[e.index].bytes().count;
    const std::int64_t change = e.kind == BlockEvent::Alloc ? bytes : -bytes;
    usage.then({change, change > 0 ? change : 0});
  }
  GPUPLAN_CHECK(usage.net == block.total.net && usage.peak == block.total.peak,
                "a block's summary differs from its events");
}

/// Every receive of a stage has a send of its neighbour; the last stage's is the first.
void verify_groups(const StepProgram& all) {
  for (std::size_t c = 0; c < all.classes.size(); ++c) {
    const std::size_t next = (c + 1) % all.classes.size();
    const auto count = [&](std::size_t k, OpCode op, Direction direction) {
      const RankProgram& p = all.programs[all.classes[k].program];
      return std::count_if(p.instructions.begin(), p.instructions.end(),
                           [&](const Instruction& i) { return i.op == op && i.direction == direction; });
    };
    GPUPLAN_CHECK(count(c, OpCode::Send, Direction::Forward) == count(next, OpCode::Recv, Direction::Forward),
                  "a forward send without its receive");
    GPUPLAN_CHECK(count(next, OpCode::Send, Direction::Backward) == count(c, OpCode::Recv, Direction::Backward),
                  "a backward send without its receive");
  }
}

}  // namespace

void verify(const StepProgram& program) {
  for (const Block& block : program.blocks) verify_block(program, block);
  for (std::size_t i = 0; i < program.num_programs; ++i) Verifier(program, written_out(program.programs[i])).run();
  if (program.mesh.num_stages() > 1) verify_groups(program);
}

}  // namespace gpuplan
